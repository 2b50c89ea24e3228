#include "model/megatron/arguments.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/text.h"

namespace plumbline::model::megatron {
namespace {

using enum Meaning;

constexpr Argument table[] = {
    {"--num-layers", value, "shape.layers", ""},
    {"--hidden-size", value, "shape.hidden_size", ""},
    {"--ffn-hidden-size", value, "shape.ffn_hidden_size", ""},
    {"--num-attention-heads", value, "shape.heads", ""},
    {"--group-query-attention", flag, "shape.grouped_query", ""},
    {"--num-query-groups", value, "shape.query_groups", ""},
    {"--kv-channels", value, "shape.kv_channels", ""},
    {"--max-position-embeddings", value, "shape.max_positions", ""},
    {"--position-embedding-type", value, "shape.position", ""},
    {"--use-rotary-position-embeddings", rule, "shape.position", "the older name of rope"},
    {"--rotary-base", value, "shape.rotary_base", ""},
    {"--rotary-percent", value, "shape.rotary_percent", ""},
    {"--normalization", value, "shape.normalization", ""},
    {"--norm-epsilon", value, "shape.norm_epsilon", ""},
    {"--swiglu", flag, "shape.gated", ""},
    {"--quick-geglu", flag, "shape.quick_geglu", "gates of GPT-OSS"},
    {"--activation-func-clamp-value", value, "shape.clamp", ""},
    {"--softmax-type", value, "shape.softmax", "learnable, off-by-one: attention sinks"},
    {"--window-size", rule, "shape.window", "N,0: N tokens"},
    {"--window-attn-skip-freq", value, "shape.window_full_every", ""},
    {"--untie-embeddings-and-output-weights", flag, "shape.untied", ""},
    {"--disable-bias-linear", flag, "shape.no_linear_bias", ""},
    {"--add-qkv-bias", flag, "shape.qkv_bias", ""},
    {"--qk-layernorm", flag, "shape.qk_norm", ""},
    {"--vocab-size", value, "shape.vocabulary", ""},
    {"--make-vocab-size-divisible-by", value, "shape.vocabulary_multiple", "the vocabulary is padded as Megatron does"},
    {"--tokenizer-type", rule, "shape.vocabulary",
     "NullTokenizer: one more; where --vocab-size is missing: GPT2BPETokenizer, Llama2Tokenizer"},
    {"--multi-latent-attention", flag, "shape.latent", ""},
    {"--q-lora-rank", value, "shape.q_lora_rank", ""},
    {"--kv-lora-rank", value, "shape.kv_lora_rank", ""},
    {"--qk-head-dim", value, "shape.qk_head_dim", ""},
    {"--qk-pos-emb-head-dim", value, "shape.qk_position_dim", ""},
    {"--v-head-dim", value, "shape.v_head_dim", ""},
    {"--num-experts", value, "shape.experts", ""},
    {"--moe-router-topk", value, "shape.experts_per_token", ""},
    {"--moe-ffn-hidden-size", value, "shape.expert_ffn", ""},
    {"--moe-layer-freq", value, "shape.expert_layers", "a number, or dense layers first"},
    {"--moe-shared-expert-intermediate-size", value, "shape.shared_expert_ffn", ""},
    {"--moe-router-num-groups", value, "shape.expert_groups", ""},
    {"--moe-router-group-topk", value, "shape.groups_per_token", ""},
    {"--moe-router-topk-scaling-factor", value, "shape.router_scaling", ""},
    {"--moe-router-score-function", value, "shape.router_score", ""},
    {"--moe-router-enable-expert-bias", flag, "shape.router_bias", ""},
    {"--mtp-num-layers", value, "shape.prediction_layers", ""},

    {"--tensor-model-parallel-size", value, "parallelism.tensor", ""},
    {"--sequence-parallel", flag, "parallelism.sequence", ""},
    {"--context-parallel-size", value, "parallelism.context", ""},
    {"--cp-comm-type", rule, "parallelism.context_method", "p2p is ring, all_gather is all-gather"},
    {"--pipeline-model-parallel-size", value, "parallelism.pipeline", ""},
    {"--expert-model-parallel-size", value, "parallelism.expert", ""},
    {"--expert-tensor-parallel-size", rule, "parallelism.expert_tensor",
     "default: the tensor degree, where there are experts"},
    {"--moe-expert-capacity-factor", rule, "routing.capacity_factor", ""},
    {"--moe-pad-expert-input-to-capacity", rule, "routing.pad_to_capacity", ""},
    {"--num-virtual-stages-per-pipeline-rank", rule, "schedule.virtual_stages",
     "more than one: schedule.kind interleaved, else 1f1b"},
    {"--num-layers-per-virtual-pipeline-stage", rule, "schedule.virtual_stages",
     "layers, with what counts as one, / pipeline / N; read only"},
    {"--overlap-moe-expert-parallel-comm", rule, "schedule.kind", "interleaved-overlap, with virtual stages"},
    {"--microbatch-group-size-per-virtual-pipeline-stage", rule, "schedule.kind",
     "the ranks, or the next number that Megatron takes with the micro-batches; no other"},
    {"--decoder-first-pipeline-num-layers", rule, "schedule.layers_per_stage",
     "the first rank; the others share evenly"},
    {"--decoder-last-pipeline-num-layers", rule, "schedule.layers_per_stage", "the last rank; the others share evenly"},
    {"--account-for-embedding-in-pipeline-split", rule, "schedule.layers_per_stage",
     "the first stage has a layer fewer"},
    {"--account-for-loss-in-pipeline-split", rule, "schedule.layers_per_stage", "the last stage has a layer fewer"},
    {"--pipeline-model-parallel-layout", rule, "schedule.layers_per_stage",
     "layers t counted between |, with *N and ( )"},
    {"--use-distributed-optimizer", rule, "parallelism.zero_stage", "1"},
    {"--use-megatron-fsdp", rule, "parallelism.zero_stage", "with --data-parallel-sharding-strategy"},
    {"--data-parallel-sharding-strategy", rule, "parallelism.zero_stage",
     "no_shard 0, optim 1, optim_grads 2, optim_grads_params 3"},
    {"--zero-stage", rule, "parallelism.zero_stage", "of Megatron-DeepSpeed; read only"},
    {"--num-distributed-optimizer-instances", rule, "parallelism.shard_group", "context * data / N ranks, if N > 1"},
    {"--use-torch-fsdp2", rule, "parallelism.zero_stage", "3; read only"},

    {"--micro-batch-size", value, "batch.micro_batch_size", ""},
    {"--global-batch-size", value, "batch.global_batch_size", "default: one micro-batch per data-parallel rank"},
    {"--seq-length", value, "batch.sequence_length", ""},
    {"--train-samples", rule, "run.tokens", "times the sequence length"},
    {"--train-iters", rule, "run.tokens", "times global batch and sequence length; read only"},

    {"--bf16", rule, "precision.gemm", "bf16; dispatch and combine too"},
    {"--fp16", rule, "precision.gemm", "fp16; neither: fp32"},
    {"--fp8-format", rule, "precision.gemm", "by the recipe; dispatch and combine stay bf16"},
    {"--fp8-recipe", rule, "precision.gemm", "blockwise: fp8; mxfp8; delayed (default), tensorwise: fp8_tensor"},
    {"--fp4-format", rule, "precision.gemm", "nvfp4; dispatch and combine stay bf16"},
    {"--fp8-param-gather", rule, "precision.parameters", "fp8"},
    {"--fp8-output-proj", rule, "precision.head", "mxfp8, which it needs"},
    {"--fp8-dot-product-attention", rule, "precision.attention", "mxfp8 by that recipe, else fp8"},
    {"--attention-backend", rule, "attention.kernel", "fused: cudnn; flash: flash2; unfused, local: unfused"},
    {"--use-flash-attn", rule, "attention.kernel", "flash2"},
    {"--transformer-impl", rule, "attention.kernel", "local: unfused, where neither argument above is given"},
    {"--cross-entropy-loss-fusion", rule, "loss.kernel", "fused; of --cross-entropy-fusion-impl te fused_in_place"},
    {"--cross-entropy-fusion-impl", rule, "loss.kernel", "native, te or linear"},
    {"--accumulate-allreduce-grads-in-fp32", rule, "precision.gradients", "fp32; what --bf16 does by itself"},
    {"--grad-reduce-in-bf16", rule, "precision.gradients", "bf16"},
    {"--main-grads-dtype", rule, "precision.gradients", ""},
    {"--use-precision-aware-optimizer", rule, "precision.optimizer_moments", "allows the types below"},
    {"--main-params-dtype", rule, "precision.master_weights", "fp32 or fp16"},
    {"--exp-avg-dtype", rule, "precision.optimizer_moments", ""},
    {"--exp-avg-sq-dtype", rule, "precision.optimizer_moments", "where both differ the first moment's holds"},

    {"--recompute-granularity", rule, "recompute.policy", "full or selective"},
    {"--recompute-activations", rule, "recompute.policy", "selective; read only"},
    {"--recompute-modules", rule, "recompute.operators", "default core_attn; names below"},
    {"--recompute-method", rule, "recompute.policy", "uniform; block: the first layers of a stage; full needs it"},
    {"--recompute-num-layers", rule, "recompute.layers",
     "of block; of uniform 1 is written, a larger chunk keeps less than priced"},
    {"--checkpoint-activations", rule, "recompute.policy", "full, as it was; read only"},
    {"--moe-layer-recompute", rule, "recompute.operators", "moe; read only"},

    {"--tp-comm-overlap", flag, "overlap.tensor", ""},
    {"--overlap-grad-reduce", flag, "overlap.gradient_reduce", ""},
    {"--overlap-param-gather", rule, "overlap.parameter_gather", "where parameters are gathered: zero_stage 1 and up"},
    {"--ddp-bucket-size", rule, "overlap.gradient_bucket_bytes", "parameters, times the bytes of a gradient"},
    {"--optimizer-cpu-offload", flag, "offload.optimizer", ""},
    {"--moe-deepep-num-sms", rule, "overlap.communication_sms", "with sm_policy none: GEMMs keep all SMs"},
    {"--moe-token-dispatcher-type", rule, "stack.dispatcher", "allgather unless the script says otherwise"},
    {"--moe-flex-dispatcher-backend", rule, "stack.dispatcher", "of flex: deepep or hybridep"},
    {"--moe-enable-deepep", rule, "stack.dispatcher", "of flex; read only"},
    {"--moe-router-fusion", rule, "stack.fused", "router"},
    {"--moe-permute-fusion", rule, "stack.fused", "permute"},
    {"--use-transformer-engine-op-fuser", rule, "stack.fused", "experts: one kernel for GEMM, activation and biases"},
    {"--cuda-graph-impl", rule, "stack.graphs", "none, or what --cuda-graph-scope names"},
    {"--cuda-graph-scope", rule, "stack.graphs", "default: all of a layer"},
    {"--enable-cuda-graph", rule, "stack.graphs", "as an impl; read only"},
    {"--external-cuda-graph", rule, "stack.graphs", "as an impl; read only"},

    {"--te-precision-config-file", not_modeled, "", "what the file sets is not read"},
    {"--reuse-grad-buf-for-mxfp8-param-ag", not_modeled, "", "parameters that are gathered have a buffer of their own"},
    {"--empty-unused-memory-level", not_modeled, "", "the allocator keeps what it has"},
    {"--fp16-lm-cross-entropy", not_modeled, "", "the loss works on FP32 logits"},
    {"--pipeline-model-parallel-comm-backend", not_modeled, "", "transfers between stages are those of NCCL"},
    {"--use-tp-pp-dp-mapping", not_modeled, "", "cluster.placement; stages lie apart"},
    {"--reset-attention-mask", not_modeled, "", "batch.document_length; every sequence is one document"},
    {"--moe-router-padding-for-fp8", not_modeled, "", "rows are padded by kernels of their own"},
    {"--rampup-batch-size", not_modeled, "", "every step is priced with the full batch"},
    {"--delay-wgrad-compute", not_modeled, "", "weight gradients apart"},
    {"--moe-hybridep-num-sms", not_modeled, "", "overlap.communication_sms"},
    {"--moe-router-force-load-balancing", not_modeled, "", "routing.imbalance = 0 is the default"},
    {"--moe-extended-tp", not_modeled, "", "experts are cut by --expert-tensor-parallel-size"},
    {"--moe-latent-size", not_modeled, "", "experts take the hidden size"},
    {"--moe-router-topk-limited-devices", not_modeled, "", "routing.max_nodes_per_token"},
    {"--yaml-cfg", not_modeled, "", "what the file sets is not read"},
    {"--tp-comm-overlap-cfg", not_modeled, "", "pieces are as many as tensor-parallel ranks"},
    {"--disable-tp-comm-overlap-ag", not_modeled, "", "gathers are overlapped"},
    {"--disable-tp-comm-overlap-rs", not_modeled, "", "sums are overlapped"},
    {"--outer-dp-sharding-strategy", not_modeled, "", "parallelism.shard_group"},
    {"--suggested-communication-unit-size", not_modeled, "", "overlap.prefetch"},
    {"--use-sharp", not_modeled, "", "collectives are reduced by GPUs"},
    {"--hybrid-context-parallel", not_modeled, "", "every rank has the same share of every sequence"},
    {"--optimizer-offload-fraction", not_modeled, "", "all optimizer states are in host memory"},
    {"--cpu-offloading-num-layers", not_modeled, "", "offload.activations is the share of all layers"},
    {"--optimizer", not_modeled, "", "the optimizer is Adam"},
    {"--first-last-layers-bf16", not_modeled, "", "all layers have the same precision"},
    {"--hybrid-mlp-ratio", not_modeled, "", "every layer has an MLP"},
    {"--spec", not_modeled, "", "layers are those that the other arguments describe"},
    {"--retro-add-retriever", not_modeled, "", "no retriever is priced"},
    {"--experimental-attention-variant", not_modeled, "", "attention sees the whole sequence"},
    {"--deepspeed-config", not_modeled, "", "what the file sets is not read; --zero-stage is"},
    {"--ds-sequence-parallel-size", not_modeled, "", "sequences are not cut over these ranks"},
    {"--no-pipeline-parallel", not_modeled, "", "--pipeline-model-parallel-size holds"},
    {"--moe-train-capacity-factor", not_modeled, "", "routing.capacity_factor"},
    {"--model", not_modeled, "", "the model is what the other arguments describe, or --model of this command"},
    {"--packing", not_modeled, "", "every sequence has the full length"},
    {"--context-parallel-algo", not_modeled, "", "parallelism.context_method is a ring"},
    {"--recompute-activation-function", not_modeled, "", "activations of functions are kept"},
    {"--reuse-fp32-param", not_modeled, "", "parameters and their FP32 copies take memory each"},
    {"--use-ascend-mc2", not_modeled, "", "overlap.tensor"},
    {"--no-gradient-accumulation-fusion", not_modeled, "", "GEMMs add into the gradients"},
    {"--deterministic-mode", not_modeled, "", "stack.name = \"megatron-core-deterministic\" has its fills and sorts"},
};

// Names of earlier versions, of Megatron-DeepSpeed and of ms-swift for arguments of the table.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"--layernorm-epsilon", "--norm-epsilon"},
    {"--model-parallel-size", "--tensor-model-parallel-size"},
    {"--batch-size", "--micro-batch-size"},
    {"--max-length", "--seq-length"},
    {"--use-custom-fsdp", "--use-megatron-fsdp"},
    {"--activations-checkpoint-method", "--recompute-method"},
    {"--activations-checkpoint-num-layers", "--recompute-num-layers"},
    {"--checkpoint-num-layers", "--recompute-num-layers"},
    {"--moe-expert-parallel-size", "--expert-model-parallel-size"},
};

// Arguments that change no cost of a step.
constexpr ArgumentGroup argument_groups[] = {
    {not_modeled, "", R"(
--moe-shared-expert-overlap --moe-use-legacy-grouped-gemm --ddp-num-buckets --disable-tp-comm-bulk-dgrad
--disable-tp-comm-bulk-wgrad --tp-comm-overlap-rs-dgrad --overlap-p2p-communication-warmup-flush
--overlap-param-gather-with-optimizer-step --no-align-grad-reduce --no-align-param-gather
--ddp-pad-buckets-for-high-nccl-busbw --fsdp-double-buffer --use-nccl-ub --nccl-ub --overlap-cpu-optimizer-d2h-h2d
--fp4-param-gather --squared-relu --hierarchical-context-parallel-sizes --attention-softmax-in-fp32
--no-overlap-p2p-communication --defer-embedding-wgrad-compute
)"},
    {not_modeled, "what a checkpoint sets is not read", "--use-checkpoint-args --use-mp-args-from-checkpoint-args"},
    {not_modeled, "offload.activations", "--fine-grained-activation-offloading --offload-modules --swap-attention"},
    {not_modeled, "kernels are fused as the profile measured", R"(
--mla-down-proj-fusion --no-masked-softmax-fusion --no-bias-swiglu-fusion --no-bias-gelu-fusion --no-rope-fusion
--no-persist-layer-norm --no-bias-dropout-fusion
)"},
    {not_modeled, "host memory is pinned", "--no-pin-cpu-grads --no-pin-cpu-params"},
    {not_modeled, "one stack of layers", "--encoder-num-layers --decoder-num-layers"},
    {not_modeled, "every layer has attention", "--hybrid-override-pattern --hybrid-attention-ratio --is-hybrid-model"},
    {not_modeled, "every tensor-parallel rank keeps its own activations", R"(
--partition-activations --distribute-saved-activations
)"},
    {not_modeled, "all weights train", "--train-type --freeze-LM"},
    {not_modeled, "dropout is not priced", "--hidden-dropout --attention-dropout"},
    {no_cost, "", R"(
--adam-beta1 --adam-beta2 --adam-eps --adlr-autoresume --apply-layernorm-1p --apply-query-key-layer-scaling
--async-save --attention-z-loss --auto-detect-ckpt-format --bias-dropout-fusion
--check-weight-hash-across-dp-replicas-interval --ckpt-assume-constant-structure --ckpt-format
--ckpt-fully-parallel-load --ckpt-fully-parallel-save --clip-grad --config-logger-dir
--create-attention-mask-in-dataloader --data-args-path
--data-cache-path --data-path --data-sharding --dataloader-type --decrease-batch-size-if-needed --delay-grad-reduce
--disable-symmetric-registration --dist-ckpt-format --dist-ckpt-strictness --distributed-backend
--distributed-timeout-minutes --enable-experimental --enable-one-logger --end-weight-decay --eod-mask-loss
--eval-interval --eval-iters --eval-micro-batch-size --exit-duration-in-mins --exit-interval
--exit-on-missing-checkpoint --exit-signal-handler --finetune --fp8-amax-compute-algo --fp8-amax-history-len
--fp8-interval --fp8-margin --full-validation --high-priority-stream-groups --hysteresis --init-method-std
--init-method-xavier-uniform --initial-loss-scale --lazy-mpu-init --load --local-rank --log-interval
--log-learning-rate-to-tensorboard --log-loss-scale-to-tensorboard --log-max-attention-logit
--log-memory-to-tensorboard --log-num-zeros-in-grad --log-params-norm --log-progress --log-straggler --log-throughput
--log-timers-to-tensorboard --log-validation-ppl-to-tensorboard --log-world-size-to-tensorboard --logging-level
--loss-scale --loss-scale-window --lr --lr-decay-iters --lr-decay-samples --lr-decay-style --lr-warmup-fraction
--lr-warmup-init --lr-warmup-iters --lr-warmup-samples --lr-wsd-decay-iters --lr-wsd-decay-samples
--lr-wsd-decay-style --manual-gc --manual-gc-eval --manual-gc-interval --merge-file --min-loss-scale --min-lr
--mock-data --moe-aux-loss-coeff --moe-grouped-gemm --moe-input-jitter-eps --moe-per-layer-logging
--moe-router-bias-update-rate --moe-router-dtype
--moe-router-load-balancing-type --moe-router-pre-softmax --moe-z-loss-coeff --mscale
--mscale-all-dim --mtp-loss-scaling-factor --no-check-for-nan-in-loss-and-grad
--no-create-attention-mask-in-dataloader --no-initialization --no-load-optim --no-load-rng --no-mmap-bin-files
--no-position-embedding --no-save-optim --no-save-rng --norm-type --num-dataset-builder-threads --num-workers
--one-logger-project --one-logger-run-name --openai-gelu --original-max-position-embeddings
--override-opt_param-scheduler --override-opt-param-scheduler --per-split-data-args-path --profile --profile-ranks
--profile-step-end --profile-step-start --pytorch-profiler --rerun-mode --reset-position-ids
--rope-scaling-factor --rope-type --rotary-interleaved --rotary-scaling-factor
--rotary-seq-len-interpolation-factor --save --save-interval --seed --short-seq-prob --skip-train --split
--start-weight-decay --straggler-ctrlr-port --te-rng-tracker --tensorboard-dir --tensorboard-log-interval
--tensorboard-queue-size --test-data-path --tiktoken-num-special-tokens --tiktoken-pattern --timing-log-level
--timing-log-option --tokenizer-model --train-data-path --trust-remote-code
--use-checkpoint-opt_param-scheduler --use-checkpoint-opt-param-scheduler --use-cpu-initialization --use-dist-ckpt
--use-mcore-models --use-persistent-ckpt-worker --use-pytorch-profiler --use-rope-scaling
--valid-data-path --vocab-extra-ids --vocab-file --wandb-entity --wandb-exp-name --wandb-project --wandb-save-dir
--weight-decay --weight-decay-incr-style
--async-strategy --calculate-per-token-loss --check-for-large-grads --check-for-nan-in-loss-and-grad
--check-for-spiky-loss --ckpt-convert-format --ckpt-convert-save --ckpt-convert-update-legacy-dist-opt-format
--ckpt-step --cuda-graph-warmup-steps --data-parallel-random-init --ddp-average-in-collective
--dist-ckpt-save-pre-mcore-014 --disable-mamba-mem-eff-path --error-injection-rate
--error-injection-type --exit-signal --fp4-recipe --init-model-with-meta-device --iterations-to-skip --log-energy --master-addr --moe-token-drop-policy --moe-use-upcycling --moe-router-force-biased
--no-ckpt-fully-parallel-save --no-load-scheduler --no-persistent-ckpt-worker
--no-use-tokenizer-model-from-checkpoint-args --non-persistent-ckpt-type
--non-persistent-global-ckpt-dir --non-persistent-local-ckpt-algo --non-persistent-local-ckpt-dir
--non-persistent-save-interval --null-tokenizer-eod-id --null-tokenizer-pad-id --num-distributed-optimizer-buckets
--one-logger-async --override-ckpt-scheduler --record-memory-history
--memory-snapshot-path --replication --replication-factor --replication-jump --result-rejected-tracker-filename
--rotary-scaling --sft --sft-tokenizer-prompt-format
--glu-linear-offset --enable-gpt-oss --deepspeed --deepspeed-activation-checkpointing --data-impl
--disable-bf16-reduced-precision-matmul --decoupled-lr --decoupled-min-lr --log-batch-size-to-tensorboard
--lr-decay-tokens --lr-warmup-tokens --override-lr-scheduler --no-shared-storage
--use-fused-rmsnorm --use-fused-swiglu --use-fused-rotary-pos-emb --dataset --load-safetensors --save-safetensors
--strict-fsdp-dtensor-load --tokenizer-hf-include-special-tokens
--tokenizer-hf-use-fast --tokenizer-metadata --tokenizer-prompt-format --tokenizer-special-tokens
--tp-comm-bootstrap-backend --train-sync-interval --use-tokenizer-model-from-checkpoint-args
)"},
};

}  // namespace

bool decides_step(const Argument& argument) {
  constexpr std::string_view others[] = {"shape.", "model.", "batch.", "cluster.", "run."};
  return !argument.key.empty() &&
         std::ranges::none_of(others, [&](std::string_view other) { return argument.key.starts_with(other); });
}

std::vector<Argument> table_of(std::span<const Argument> rows, std::span<const ArgumentGroup> groups) {
  std::vector<Argument> all(rows.begin(), rows.end());
  for (const ArgumentGroup& group : groups)
    for (const std::string_view line : lines_of(group.names))
      for (const std::string_view name : split_at(line, ' '))
        if (!name.empty()) all.push_back({name, group.meaning, "", group.note});
  return all;
}

std::span<const Argument> arguments() {
  static const std::vector<Argument> all = table_of(table, argument_groups);
  return all;
}

std::string known_name(std::string_view name) {
  const auto by_table = [](std::string_view one) {
    const auto* other = std::ranges::find(other_names, one, &std::pair<std::string_view, std::string_view>::first);
    return other == std::end(other_names) ? one : other->second;
  };
  const std::string_view named = by_table(name);
  if (find_argument(named) != nullptr || !name.starts_with("--")) return std::string(named);
  std::string dashed(name);
  std::ranges::replace(dashed, '_', '-');
  dashed = by_table(dashed);
  return find_argument(dashed) != nullptr ? dashed : std::string(name);
}

const Argument* find_argument(std::string_view name) {
  const auto found = std::ranges::find(arguments(), name, &Argument::name);
  return found == arguments().end() ? nullptr : &*found;
}

std::string nearest_argument(std::string_view name) {
  std::vector<std::string> names;
  for (const Argument& argument : arguments()) names.emplace_back(argument.name);
  return nearest_name(name, names);
}

}  // namespace plumbline::model::megatron
