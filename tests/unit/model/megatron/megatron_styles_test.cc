// Imports launch scripts in the styles of public repositories: their plans, or the reason why there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/text_file.h"
#include "model/megatron/import.h"
#include "tests/support/inputs.h"

namespace plumbline::model::megatron {
namespace {

namespace fs = std::filesystem;
using tests::error_of, tests::value_of;

const std::string styles = tests::shipped("tests/golden/inputs/megatron/styles");

FoundFile find_style(const std::string& path) {
  const fs::path whole = (fs::path(styles) / path).lexically_normal();
  const auto text = fs::is_regular_file(whole) ? read_text_file(whole.string()) : tl::unexpected(Error());
  if (text) return {FileKind::file, *text};
  return {whole.string().starts_with(styles) ? FileKind::none : FileKind::unknown, ""};
}

Result<ImportedScript> import_style(const std::string& text, const std::string& name, const Definitions& definitions) {
  return import_script(text, name,
                       {.definitions = definitions, .config = "m.json", .folder = styles, .find_file = find_style});
}
Result<ImportedScript> import_style(const std::string& name, const Definitions& definitions) {
  return import_style(read_text_file(styles + "/" + name).value(), name, definitions);
}

std::string noted(const ImportedScript& read) {
  std::string notes;
  for (const Note& note : read.notes) notes += note.text + "\n";
  return notes;
}

struct Expected {
  std::string script;
  Definitions definitions;
  std::int64_t gpus, layers, hidden, tensor, pipeline, context, batch;
  std::vector<std::string> lines;  // of the plan
};

TEST(MegatronStyles, ScriptsAreImported) {
  const std::vector<Expected> all = {
      {"model_size.sh", {}, 16, 32, 4096, 1, 1, 1, 512, {"zero_stage = 1"}},
      {"model_size.sh", {{"1", "70b"}, {"2", "16"}}, 128, 80, 8192, 8, 4, 1, 512, {}},
      {"slurm_array.sh",
       {},
       128,
       32,
       4096,
       1,
       4,
       1,
       256,
       {"expert = 8", "virtual_stages = 2", "kind = \"interleaved\"", "dispatcher = \"alltoall\"",
        "gradient_reduce = true", "sequence = false"}},
      {"long_options.sh", {}, 8, 32, 4096, 2, 1, 1, 128, {"policy = \"none\""}},
      {"long_options.sh",
       {{"1", "--nodes"}, {"2", "4"}, {"3", "--recompute"}, {"4", "selective"}, {"5", "--gpus=4"}},
       16,
       32,
       4096,
       2,
       1,
       1,
       256,
       {"policy = \"selective\"", "operators = [\"core_attention\"]"}},
      {"sourced.sh", {}, 64, 32, 4096, 2, 1, 2, 128, {"kernel = \"flash2\"", "sequence = true"}},
      {"nested_if.sh", {}, 32, 48, 6144, 1, 4, 1, 256, {"gradient_reduce = false", "gemm = \"bf16\""}},
      {"nested_if.sh", {{"NODES", "8"}}, 64, 48, 6144, 1, 4, 1, 256, {"gradient_reduce = true"}},
      {"nested_if.sh", {{"MODE", "debug"}}, 1, 2, 6144, 1, 1, 1, 256, {}},
      {"environment.sh", {}, 32, 80, 8192, 4, 2, 1, 256, {"gemm = \"bf16\""}},
      {"environment.sh",
       {{"FP8", "1"}, {"CP", "2"}, {"NNODES", "16"}},
       128,
       80,
       8192,
       4,
       2,
       2,
       256,
       {"gemm = \"fp8\""}},
      {"undecided.sh", {{"CLUSTER", "hopper"}}, 32, 80, 8192, 8, 1, 1, 128, {"gemm = \"fp8\""}},
      {"machine.sh", {{"GPUS_PER_NODE", "4"}}, 16, 32, 4096, 1, 4, 1, 64, {}},
  };
  for (const Expected& expected : all) {
    const auto read = import_style(expected.script, expected.definitions);
    ASSERT_TRUE(read) << expected.script << to_string(read.error());
    EXPECT_EQ(read->plan.cluster.gpus, expected.gpus) << expected.script;
    EXPECT_EQ(read->shape.layers, expected.layers) << expected.script;
    EXPECT_EQ(read->shape.hidden_size, expected.hidden) << expected.script;
    EXPECT_EQ(read->plan.parallelism.tensor, expected.tensor) << expected.script;
    EXPECT_EQ(read->plan.parallelism.pipeline, expected.pipeline) << expected.script;
    EXPECT_EQ(read->plan.parallelism.context, expected.context) << expected.script;
    EXPECT_EQ(read->plan.batch.global_batch_size, expected.batch) << expected.script;
    for (const std::string& line : expected.lines)
      EXPECT_THAT(to_toml(read->plan), testing::HasSubstr("\n" + line + "\n")) << expected.script;
  }
}

TEST(MegatronStyles, ScriptsThatAreNotDecidedAreRefusedWithTheReason) {
  struct Refused {
    std::string script;
    int line;
    std::string key, text, hint;
  };
  for (const Refused& wanted : std::vector<Refused>{
           {"undecided.sh", 5, "--fp8-format",
            "'[ \"$CLUSTER\" = \"hopper\" ]' with CLUSTER is not decided (undecided.sh:3)", "--define CLUSTER=VALUE"},
           {"getopts.sh", 12, "", "'getopts' is not read", "--execute"},
           {"heredoc.sh", 14, "", "'read' is not read", "--execute"},
           {"started.sh", 0, "", "no command runs a .py file", "--execute"},
           {"machine.sh", 11, "--pipeline-model-parallel-size", "with GPUS_PER_NODE is not decided",
            "--define GPUS_PER_NODE=VALUE"}}) {
    const auto read = import_style(wanted.script, {});
    ASSERT_FALSE(read) << wanted.script;
    tests::expect_error(read.error(), ErrorKind::input, wanted.script, wanted.line, wanted.key, wanted.text);
    EXPECT_THAT(read.error().hint, testing::HasSubstr(wanted.hint));
  }
  // A condition that every training needs is not the one in which trainings differ.
  const auto guarded =
      error_of(import_style("FP8=\n[ \"$X\" = 1 ] && FP8='--fp8-format hybrid'\nmkdir out || exit 1\n"
                            "python pretrain_gpt.py --num-layers 2 --bf16 $FP8\n",
                            "guarded.sh", {}));
  EXPECT_THAT(guarded.message, testing::HasSubstr("with X is not decided (guarded.sh:2)"));
  // Of the launcher's words those that count GPUs are decided, others may be open.
  const std::string arguments =
      " pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 --micro-batch-size 1 "
      "--max-position-embeddings 8 --vocab-size 128 --bf16";
  for (const std::string open : {"N=4\n[ $X = 1 ] && N=8\ntorchrun --nproc_per_node 8 --nnodes $N",
                                 "S=\n[ $X = 1 ] && S='--nnodes 4'\ntorchrun $S --nproc_per_node 8",
                                 "S=\n[ $X = 1 ] && S='srun -N 4'\n$S torchrun --nproc_per_node 8"}) {
    const auto launched = import_style(open + arguments, "launched.sh", {});
    ASSERT_FALSE(launched) << open;
    EXPECT_THAT(launched.error().message, testing::HasSubstr("'[ $X = 1 ]' with X is not decided (launched.sh:2)"));
    EXPECT_THAT(launched.error().hint, testing::HasSubstr("--define X=VALUE"));
  }
  EXPECT_TRUE(import_style("A=h\n[ $X = 1 ] && A=$X\ntorchrun --nproc_per_node 8 --master_addr $A" + arguments +
                               " $([ $X = 1 ] && echo --save s)",
                           "launched.sh", {{"X", "1"}}));
  EXPECT_TRUE(
      import_style("A=h\n[ $X = 1 ] && A=$X\ntorchrun --nproc_per_node 8 --master_addr $A" + arguments, "l.sh", {}));
  // A misspelt argument is named where its own is missing.
  const std::string one_argument_wrong = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layer 2 --hidden-size 64\n";
  const auto misspelt = error_of(import_style(one_argument_wrong, "m.sh", {}));
  tests::expect_error(misspelt, ErrorKind::input, "m.sh", 1, "--num-layers", "is not in the script");
  EXPECT_THAT(misspelt.hint, testing::HasSubstr("did you mean '--num-layers' by '--num-layer'?"));
  EXPECT_FALSE(import_style("model_size.sh", {{"1", "3b"}}));
  const auto missing = error_of(import_style("sourced.sh", {{"MODEL", "9b"}}));
  tests::expect_error(missing, ErrorKind::input, "sourced.sh", 5, "", "model_9b.sh' is sourced");
}

TEST(MegatronStyles, WhatAReadingRestsOnIsSaid) {
  EXPECT_THAT(noted(value_of(import_style("nested_if.sh", {}))),
              testing::HasSubstr("--define changes them: MODE=cluster, NODES=''\n"));
  std::string notes;
  const auto sourced = import_style("sourced.sh", {});
  for (const Note& note : sourced->notes) notes += place_of(sourced->files, note.line) + ": " + note.text + "\n";
  EXPECT_THAT(notes, testing::HasSubstr("NNODES=8, GPUS_PER_NODE=8, MODEL=8b"));
  EXPECT_THAT(notes, testing::HasSubstr("sourced.sh:9: '/etc/profile.d/modules.sh' is not read"));
  EXPECT_THAT(notes, testing::HasSubstr("common/model_8b.sh:5: --init-method-std 0.01: changes no cost"));
  // After cd a path is relative to the new folder.
  const auto away = import_style(
      "cd \"$(dirname \"$0\")/..\"\nsource ./venv/activate\npython a.py --num-layers 12 --hidden-size 512 "
      "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 "
      "--vocab-size 32000 --bf16\n",
      "away.sh", {{"WORLD_SIZE", "8"}});
  EXPECT_THAT(noted(value_of(away)), testing::HasSubstr("'./venv/activate' is not read"));
  // A default behind it is not known, and states so.
  const std::string tensor =
      "source ~/.bashrc\nTP=${TP:-8}\npython a.py --num-layers 12 --hidden-size 512 --num-attention-heads 8 "
      "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --vocab-size 32000 --bf16 "
      "--tensor-model-parallel-size $TP\n";
  const auto tensors = error_of(import_style(tensor, "tp.sh", {{"WORLD_SIZE", "8"}}));
  tests::expect_error(tensors, ErrorKind::input, "tp.sh", 3, "--tensor-model-parallel-size",
                      "'${TP:-8}' is not known: '~/.bashrc' (tp.sh:1) is not read and may set TP");
  EXPECT_EQ(tensors.hint, "--define TP=VALUE, or --execute runs the script");
  EXPECT_TRUE(import_style(tensor, "tp.sh", {{"WORLD_SIZE", "8"}, {"TP", "4"}}));
  // Nothing of an unknown folder is next to the script, where common/model_8b.sh is.
  for (const char* move : {"cd \"$MEGATRON\"", "cd megatron", "cd /x && cd -"}) {
    const auto moved = import_style(
        std::string(move) + "\nLAYERS=12\nsource common/model_8b.sh\n[ -f common/model_8b.sh ] && LAYERS=24\n" +
            "python a.py --num-layers $LAYERS --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
            "--max-position-embeddings 1024 --micro-batch-size 1 --vocab-size 32000 --bf16\n",
        "moved.sh", {{"WORLD_SIZE", "8"}});
    ASSERT_FALSE(moved) << move;
    EXPECT_THAT(moved.error().message, testing::HasSubstr("'[ -f common/model_8b.sh ]' is not decided")) << move;
  }
}

// The constructs of the scripts in Megatron-LM's own examples.
TEST(MegatronStyles, ExamplesOfMegatronAreReadOrRefusedWithTheRemedy) {
  const std::string size =
      "--num-layers 12 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --micro-batch-size 1 "
      "--max-position-embeddings 1024 ";
  // Elements that hold an argument with its value, a guard of the program, directories that are made.
  const auto llama = value_of(import_style(
      "export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}\nSAVE=${1:-\"out/run\"}\n"
      "mkdir -p \"$(dirname \"$SAVE\")\"\nPROGRAM=\"examples/pretrain_gpt.py\"\nDTYPE=\"fp8\"\nEXTRA=()\n"
      "if [[ \"$DTYPE\" == \"fp8\" ]]; then\n  EXTRA+=(\n    \"--fp8-format hybrid\"  # why\n    "
      "\"--fp8-param-gather\"\n  )\nfi\n"
      "EXTRA+=(\"--tokenizer-type NullTokenizer\" \"--vocab-size 32000\" \"--split '99,1,0'\" \"--data-cache-path "
      "${PWD}/c\")\n"
      "if [ ! -f \"$PROGRAM\" ]; then\n  echo \"not found at $PROGRAM\"\n  exit 1\nfi\n"
      "torchrun --nproc_per_node 8 \"$PROGRAM\" " +
          size + "--bf16 --cross-entropy-loss-fusion ${EXTRA[@]} --save \"$SAVE\"\nset +x\n",
      "llama.sh", {}));
  EXPECT_EQ(llama.plan.precision.gemm, Precision::fp8_tensor);
  EXPECT_EQ(llama.plan.precision.parameters, "fp8");
  EXPECT_EQ(llama.plan.loss.kernel, "fused");
  EXPECT_THAT(noted(llama), testing::HasSubstr("'[ ! -f \"$PROGRAM\" ]' is not decided: it is taken not to hold"));
  // The output projection in MXFP8, which is that of the recipe.
  const std::string train = "python pretrain_gpt.py " + size + "--vocab-size 32000 --bf16 --fp8-format e4m3 ";
  const auto head =
      value_of(import_style(train + "--fp8-recipe mxfp8 --fp8-output-proj\n", "head.sh", {{"WORLD_SIZE", "8"}}));
  EXPECT_EQ(head.plan.precision.head, "mxfp8");
  const auto other =
      error_of(import_style(train + "--fp8-recipe delayed --fp8-output-proj\n", "head.sh", {{"WORLD_SIZE", "8"}}));
  EXPECT_THAT(to_string(other), testing::HasSubstr("it needs --fp8-recipe mxfp8"));
  // A loop over the parameters, directories that must exist, and stages that do not divide the layers.
  const std::string oss =
      "DIR=NONE\nwhile [[ $# -gt 0 ]]; do\n  case $1 in\n    --dir)\n      DIR=\"$2\"; shift 2 ;;\n    *) exit 1 ;;\n  "
      "esac\ndone\n"
      "if [ ! -d \"$DIR\" ]; then exit 1; fi\nGPUS=8\nWORLD_SIZE=$(($GPUS*1))\nPP=${STAGES:-${WORLD_SIZE}}\n"
      "python -m torch.distributed.run --nproc_per_node $GPUS pretrain_gpt.py " +
      size +
      "--vocab-size 32000 --pipeline-model-parallel-size $PP --num-experts 4 --moe-ffn-hidden-size 2048 --bf16 "
      "--quick-geglu "
      "--glu-linear-offset 1.0 --softmax-type learnable --window-attn-skip-freq 2 --window-size 128,0 --normalization "
      "RMSNorm "
      "--activation-func-clamp-value 7.0 --position-embedding-type rope --enable-gpt-oss --recompute-activations\n";
  const auto uneven = error_of(import_style(oss, "oss.sh", {}));
  EXPECT_EQ(uneven.message, "--num-layers: 12 layers do not divide over 8 stages");
  const auto even = value_of(import_style(oss, "oss.sh", {{"STAGES", "4"}, {"1", "--dir"}, {"2", "here"}}));
  EXPECT_EQ(even.config->model_type, "gpt_oss");
  EXPECT_EQ(even.shape.window, 128);
  EXPECT_EQ(even.shape.clamp, 7);
  EXPECT_EQ(even.plan.recompute.policy, "selective");
  EXPECT_EQ(even.plan.loss.kernel, "unfused_in_place");
  EXPECT_THAT(noted(even), testing::HasSubstr("attention sinks are not priced"));
  // A string of options, a case, another model, and a vocabulary that only the tokenizer has.
  const std::string mamba =
      "SCALE=\"8B\"\ncase \"${SCALE}\" in\n  \"800M\") TP=1 ;;\n  \"8B\")\n    TP=4\n    ;;\n  *) exit 1 "
      ";;\nesac\nDATA=$1\n"
      "options=\" \\\n  --tensor-model-parallel-size ${TP} \\\n  --hybrid-attention-ratio 0.08 --data-path ${DATA} \\\n"
      "  --spec a.b c --tokenizer-type GPTSentencePieceTokenizer --bf16\"\n"
      "torchrun --nproc_per_node 8 ../../pretrain_mamba.py ${options} " +
      size + "\n";
  const auto tokenizer = error_of(import_style(mamba, "mamba.sh", {}));
  EXPECT_EQ(tokenizer.key, "--vocab-size");
  EXPECT_THAT(tokenizer.hint, testing::HasSubstr("--args"));
  const auto sized =
      value_of(import_script(mamba, "mamba.sh", {.more_arguments = "--vocab-size 32000", .config = "m.json"}));
  EXPECT_EQ(sized.plan.parallelism.tensor, 4);
  // One of 12 layers has attention, with 11 layers of Mamba-2 around it: 5.5 before it, which are 6 where half a layer
  // counts as one.
  EXPECT_EQ(sized.shape.pattern, "MMMMMM*MMMMM");
  EXPECT_EQ(sized.config->model_type, "nemotron_h");
  // Megatron-DeepSpeed: options in a string that eval runs, names and flags of their time.
  const std::string deepspeed =
      "DIR=`pwd`\nNAME=\"gpt-$(date +%s)\"\nOPTIONS=\" --model-parallel-size 2 --vocab-size 32000 --fp16\"\n"
      "CHECKPOINT=\"true\"\nif [ \"${CHECKPOINT}\" = \"true\" ]; then\nOPTIONS=\"${OPTIONS} \\\n  "
      "--checkpoint-activations\"\nfi\n"
      "sed \"s/A/B/\" t.json > c.json\nZERO=\" --deepspeed --deepspeed_config c.json --zero-stage 2\"\n"
      "run=\"deepspeed ${NODES} ${DIR}/../pretrain_gpt.py ${OPTIONS} " +
      size + "${ZERO} &> ${DIR}/${NAME}.log\"\necho ${run}\neval ${run}\n";
  const auto hosts = error_of(import_style(deepspeed, "ds.sh", {}));
  EXPECT_THAT(hosts.message, testing::HasSubstr("the number of GPUs is not in the script"));
  const auto older = value_of(import_style(deepspeed, "ds.sh", {{"NODES", "--num_nodes 2 --num_gpus 8"}}));
  EXPECT_EQ(older.plan.cluster.gpus, 16);
  EXPECT_EQ(older.plan.parallelism.zero_stage, 2);
  EXPECT_EQ(older.plan.parallelism.tensor, 2);
  EXPECT_EQ(older.plan.recompute.policy, "full");
  EXPECT_THAT(noted(older), testing::HasSubstr("--deepspeed-config c.json: not modelled"));
  // What is computed behind the training, arguments that only a path decides, and output of Python's own code.
  const auto amd = value_of(import_style(
      "LIST=$(rdma link -j | python3 -c \"import sys; l=[i['f'] for i in range(8)]; print(*l,sep=',')\")\n"
      "for ARGUMENT in \"$@\"; do\n  KEY=$(echo $ARGUMENT | cut -f1 -d=)\n  export \"$KEY\"=\"${ARGUMENT:1}\"\ndone\n"
      "TIME=$(date +\"%H-%M\")\nARGS=\"\n --bf16 \\\n --vocab-size 32000 \\\n\"\nif [ -z ${DATA_PATH+x} ]; then\n  "
      "ARGS=\"$ARGS --mock-data\"\nfi\nif [ -n \"$SAVE\" ]; then\n  ARGS=\"$ARGS --save $SAVE\"\nfi\n"
      "run_cmd=\"\n torchrun --nproc_per_node ${GPUS:-8} pretrain_gpt.py $ARGS " +
          size + "\"\nrun_cmd=\"$run_cmd |& tee log/$TIME.log\"\neval $run_cmd\nread -r SPEED < tmp.txt\n",
      "amd.sh", {}));
  EXPECT_EQ(amd.plan.cluster.gpus, 8);
  EXPECT_THAT(noted(amd), testing::HasSubstr("GPUS=8"));
  EXPECT_THAT(noted(amd), testing::HasSubstr("--save $SAVE: changes no cost"));
  // ms-swift: underscores, values of switches, the environment's numbers of processes.
  const auto swift = value_of(
      import_style("export NPROC_PER_NODE=8 NNODES=2\nmegatron sft --model some/name --num_layers 12 --hidden_size 512 "
                   "--num_attention_heads 8 --max_length 1024 --micro_batch_size 1 --vocab_size 32000 --bf16 true "
                   "--tensor_model_parallel_size 2 --sequence_parallel true --swiglu true --fp16 false --lora_rank 8\n",
                   "swift.sh", {}));
  EXPECT_EQ(swift.plan.cluster.gpus, 16);
  EXPECT_EQ(swift.plan.batch.sequence_length, 1024);
  EXPECT_TRUE(swift.plan.parallelism.sequence);
  EXPECT_EQ(swift.plan.precision.gemm, Precision::bf16);
  EXPECT_EQ(swift.plan.training.method, "full");
  // Its defaults are not Megatron-LM's.
  EXPECT_EQ(swift.plan.batch.global_batch_size, 16);
  EXPECT_EQ(swift.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(swift.plan.recompute.policy, "selective");
  EXPECT_EQ(swift.plan.attention.kernel, "flash2");
  EXPECT_EQ(swift.plan.loss.kernel, "fused");
  EXPECT_THAT(noted(swift), testing::HasSubstr("ms-swift's defaults: --global-batch-size 16 "
                                               "--recompute-granularity selective --attention-backend flash"));
  const auto chosen = value_of(import_style(
      "NPROC_PER_NODE=8 NNODES=1 megatron sft --num_layers 12 --hidden_size 512 --num_attention_heads 8 "
      "--max_length 1024 --vocab_size 32000 --num_experts 8 --expert_model_parallel_size 4 --global_batch_size 64 "
      "--use_distributed_optimizer false --recompute_granularity none --fp16 true\n",
      "swift.sh", {}));
  EXPECT_EQ(chosen.plan.batch.global_batch_size, 64);
  EXPECT_EQ(chosen.plan.parallelism.zero_stage, 0);
  EXPECT_EQ(chosen.plan.recompute.policy, "none");
  EXPECT_EQ(chosen.plan.precision.gemm, Precision::fp16);
  EXPECT_EQ(chosen.plan.stack.dispatcher, "alltoall");
}

// ms-swift spreads experts over no tensor ranks by default, Megatron-LM over those of the layers. The file
// behind its verb is the verb.
TEST(MegatronStyles, MsSwiftsExpertsAreOfNoTensorRanks) {
  const std::string arguments =
      " --num_layers 12 --hidden_size 512 --num_attention_heads 8 --max_length 1024 --vocab_size 32000 --num_experts 8 "
      "--tensor_model_parallel_size 2 --expert_model_parallel_size 2 ";
  const std::string file =
      "python -m torch.distributed.run --nnodes 1 --nproc_per_node 4 /a/swift/cli/_megatron/sft.py";
  for (const std::string& program : {std::string("NPROC_PER_NODE=4 megatron sft"), file}) {
    const auto swift = value_of(import_style(program + arguments + "\n", "swift.sh", {}));
    EXPECT_EQ(swift.plan.cluster.gpus, 4);
    EXPECT_EQ(swift.plan.parallelism.expert_tensor, 1);
    EXPECT_EQ(swift.plan.batch.global_batch_size, 16) << "of ms-swift";
  }
  const auto stated = value_of(import_style(file + arguments + "--expert_tensor_parallel_size 2\n", "swift.sh", {}));
  EXPECT_EQ(stated.plan.parallelism.expert_tensor, 2);
}

TEST(MegatronStyles, AdaptersOfMsSwiftAreThoseOfThePlan) {
  const std::string model =
      "NPROC_PER_NODE=8 megatron sft --num_layers 12 --hidden_size 512 --num_attention_heads 8 --max_length 1024 "
      "--vocab_size 32000 --num_experts 8 --expert_model_parallel_size 4 ";
  using Words = std::vector<std::string>;
  for (const auto& [words, rank, targets] :
       {std::tuple("--train_type lora --lora_rank 32 --lora_alpha 64 --target_modules all-linear", 32,
                   Words{"attention", "mlp", "experts"}),
        {"--tuner_type lora", 8, Words{"attention", "mlp", "experts"}},
        {"--train_type lora --target_modules linear_qkv linear_proj", 8, Words{"attention"}},
        {"--train_type lora --target_modules linear_qkv all-linear", 8, Words{"attention", "mlp", "experts"}},
        {"--train_type lora --target_modules gate_proj down_proj", 8, Words{"mlp", "experts"}},
        {"--train_type lora --target_modules linear_qkv mlp.router mlp.gate", 8, Words{"attention"}}}) {
    const auto lora = import_style(model + words + "\n", "swift.sh", {});
    ASSERT_TRUE(lora) << words << to_string(lora.error());
    EXPECT_EQ(lora->plan.training.method, "lora") << words;
    EXPECT_EQ(lora->plan.training.rank, rank) << words;
    EXPECT_EQ(lora->plan.training.targets, targets) << words;
  }
  const auto other = value_of(import_style(model + "--train_type lora --target_modules lm_head\n", "swift.sh", {}));
  EXPECT_EQ(other.plan.training.targets, (Words{"attention", "mlp", "experts"}));
  EXPECT_THAT(other.notes,
              testing::Contains(testing::Field(&Note::text, testing::HasSubstr("--target-modules: no module"))));
}

TEST(MegatronStyles, AModelThatIsOnlyNamedIsNamedInTheError) {
  const std::string rest = " --seq-length 1024 --micro-batch-size 1 --bf16\n";
  for (const auto& [words, message] :
       {std::pair("NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen2.5-14B",
                  "--model: the dimensions of Qwen/Qwen2.5-14B are not in the script"),
        {"torchrun --nproc_per_node 8 pretrain_hybrid.py --hybrid-layer-pattern M-M-MC --hidden-size 2048",
         "--hybrid-layer-pattern: no known model type has compressed attention ('M-M-MC')"}}) {
    const auto named = import_style(words + rest, "named.sh", {});
    ASSERT_FALSE(named) << words;
    EXPECT_THAT(to_string(named.error()), testing::HasSubstr(message));
  }
  // A shipped model of that name is the model.
  const auto find = [](const std::string& name) -> std::optional<NamedShape> {
    ModelShape shape;
    shape.layers = 36;
    if (!contains(name, "Qwen3-8B")) return std::nullopt;
    return NamedShape{"qwen3-8b", shape, name != "Qwen/Qwen3-8B"};
  };
  const auto shipped = value_of(import_script("NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B" + rest, "named.sh",
                                              {.config = "m.json", .find_model = find}));
  EXPECT_EQ(shipped.plan.model.config, "qwen3-8b");
  EXPECT_EQ(shipped.shape.layers, 36);
  EXPECT_FALSE(shipped.config);
  const auto goes_on = [](const ImportedScript& read) {
    return std::ranges::any_of(read.notes, [](const auto& note) { return contains(note.text, "goes on"); });
  };
  EXPECT_FALSE(goes_on(shipped));
  EXPECT_TRUE(goes_on(value_of(import_script("NPROC_PER_NODE=8 megatron sft --load out/Qwen3-8B-further" + rest,
                                             "named.sh", {.config = "m.json", .find_model = find}))))
      << "by the folder's name";
}

// What forks state by arguments of their own: DeepSeek-V3 in MindSpeed's names, and stages of Megatron-DeepSpeed.
TEST(MegatronStyles, ArgumentsOfForksAreThoseOfMegatron) {
  const std::string gpus =
      "torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --seq-length 4096 --bf16 "
      "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 256 ";
  const auto of = [&](const std::string& arguments) { return import_style(gpus + arguments, "fork.sh", {}); };
  const std::string latent =
      "--num-layers 64 --noop-layers 61,62,63 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
      "--padded-vocab-size 129280 --multi-head-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 "
      "--qk-nope-head-dim 128 --qk-rope-head-dim 64 --v-head-dim 128 --num-experts 256 --moe-router-topk 8 "
      "--moe-intermediate-size 2048 --first-k-dense-replace 3 --n-shared-experts 2 --n-group 8 --topk-group 4 "
      "--routed-scaling-factor 2.5 --swiglu --normalization RMSNorm --disable-bias-linear "
      "--position-embedding-type rope --untie-embeddings-and-output-weights --tensor-model-parallel-size 2 "
      "--pipeline-model-parallel-size 8 --expert-model-parallel-size 4 --moe-tp-extend-ep --swap-optimizer ";
  const auto deepseek = value_of(of(latent + "--schedules-method dualpipev --moe-fb-overlap"));
  const ModelShape& shape = deepseek.shape;
  EXPECT_EQ(shape.layers, 61);
  EXPECT_TRUE(shape.latent);
  EXPECT_EQ(shape.qk_head_dim, 128);
  EXPECT_EQ(shape.qk_position_dim, 64);
  EXPECT_EQ(shape.vocabulary, 129280);
  EXPECT_EQ(shape.expert_layers, "([0]*3+[1]*58)");
  EXPECT_EQ(shape.shared_expert_ffn, 4096);
  EXPECT_EQ(shape.expert_groups, 8);
  EXPECT_EQ(shape.groups_per_token, 4);
  EXPECT_EQ(deepseek.config->model_type, "deepseek_v2");  // whose router is a softmax
  const auto latents = value_of(of(latent + "--moe-latent-size 1024"));
  EXPECT_EQ(latents.shape.expert_latent, 1024);
  EXPECT_THAT(latents.config->json, testing::HasSubstr("\"moe_latent_size\": 1024"));
  const Plan& plan = deepseek.plan;
  EXPECT_EQ(plan.parallelism.expert, 8);  // 4 x the tensor degree
  EXPECT_EQ(plan.parallelism.expert_tensor, 1);
  EXPECT_EQ(plan.schedule.kind, "dualpipev");
  std::vector<std::int64_t> counts(16, 4);  // 64 layers on 16 stages, of which the last three do nothing
  counts.back() = 1;
  EXPECT_EQ(plan.schedule.layers_per_stage.counts, counts);
  const auto one_way = value_of(of(latent));
  EXPECT_EQ(one_way.plan.schedule.kind, "1f1b");
  EXPECT_EQ(one_way.plan.schedule.layers_per_stage.counts, (std::vector<std::int64_t>{8, 8, 8, 8, 8, 8, 8, 5}));
  const auto outside = error_of(of(latent + "--noop-layers 64"));
  EXPECT_THAT(outside.message, testing::HasSubstr("layer 64 is none of 64"));

  // BLOOM's 70 layers, with embedding and head, on 8 stages; without them DeepSpeed does with a remainder.
  const std::string bloom =
      "--num-layers 70 --hidden-size 14336 --num-attention-heads 112 --pad-vocab-size-to 250880 --deepspeed "
      "--num-key-value-heads 8 --pipeline-model-parallel-size 8 --train-tokens 300000000 ";
  for (const char* method : {"", "--pp-partition-method 'type:transformer|embedding'"}) {
    const auto read = of(bloom + method);
    ASSERT_TRUE(read) << method << to_string(read.error());
    EXPECT_EQ(read->shape.key_value_heads(), 8);
    EXPECT_EQ(read->shape.vocabulary, 250880);
    EXPECT_EQ(read->plan.run.tokens, 3e8);
  }
  EXPECT_FALSE(of(bloom + "--no-pipeline-parallel"));
  EXPECT_TRUE(of(bloom + "--cpu-optimizer").value().plan.offload.optimizer);
  // An optimizer and a dropout that are priced as they are stated change nothing.
  const auto adam =
      value_of(of(bloom + "--optimizer adam --hidden-dropout 0 --attention-dropout 0.1 --ds-sequence-parallel-size 1"));
  for (const char* note : {"--attention-dropout 0.1: not modelled", "--hidden-dropout 0: changes no cost",
                           "--ds-sequence-parallel-size 1: changes no cost"})
    EXPECT_THAT(noted(adam), testing::HasSubstr(note));
  EXPECT_THAT(noted(adam), testing::Not(testing::HasSubstr("--optimizer adam")));
}

// What programs other than Megatron-LM's do by themselves.
TEST(MegatronStyles, ForksHaveDefaultsOfTheirOwn) {
  const std::string model =
      " train.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --micro-batch-size 1 "
      "--max-position-embeddings 2048 --vocab-size 32000 --swiglu --position-embedding-type rope ";
  const auto of = [&model](const std::string& arguments) {
    return import_style("torchrun --nproc_per_node 8" + model + arguments, "fork.sh", {});
  };
  // DeepSpeed shards the states of bf16 parameters; every second layer has experts, one of them takes a token.
  const auto moe = value_of(of("--deepspeed --bf16 --zero-stage 0 --num-experts 16 --normalization rmsnorm"));
  EXPECT_EQ(moe.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(moe.shape.normalization, "RMSNorm");
  EXPECT_EQ(moe.shape.expert_layers, "2");
  EXPECT_EQ(moe.shape.experts_per_token, 1);
  EXPECT_EQ(moe.plan.routing.capacity_factor, 1);
  EXPECT_EQ(moe.plan.routing.pad_to_capacity, true);
  EXPECT_EQ(moe.plan.stack.dispatcher, "alltoall");
  EXPECT_THAT(noted(moe), testing::HasSubstr("--deepspeed: one of 2 layers has experts, 1 of them for each token"));
  const auto chosen =
      value_of(of("--deepspeed --fp16 --num-experts 16 --expert-interval 1 --topk 2 --moe-train-capacity-factor 1.5"));
  EXPECT_EQ(chosen.plan.parallelism.zero_stage, 0);
  EXPECT_EQ(chosen.shape.expert_layers, "1");
  EXPECT_EQ(chosen.shape.experts_per_token, 2);
  EXPECT_EQ(chosen.plan.routing.capacity_factor, 1.5);
  EXPECT_FALSE(value_of(of("--deepspeed --bf16 --num-experts 1")).shape.experts);
  // PyTorch's FSDP2 overlaps by itself.
  const auto fsdp = value_of(of("--bf16 --use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward"));
  EXPECT_EQ(fsdp.plan.parallelism.zero_stage, 3);
  EXPECT_FALSE(fsdp.plan.parallelism.reshard_after_forward);
  EXPECT_TRUE(fsdp.plan.overlap.parameter_gather && fsdp.plan.overlap.gradient_reduce);
  // MindSpeed's sparse attention and adapters, with a value that is none.
  const auto sparse = value_of(
      of("--bf16 --multi-latent-attention --q-lora-rank 512 --num-experts 16 --enable-dsa-indexer --index-topk 1024 "
         "--first-k-dense-replace 0 "
         "--moe-router-topk-scaling-factor none --lora-r 16 --lora-target-modules linear_qkv"));
  EXPECT_EQ(sparse.config->model_type, "deepseek_v32");
  EXPECT_EQ(sparse.shape.indexer_heads, 64);
  EXPECT_EQ(sparse.shape.indexer_tokens, 1024);
  EXPECT_EQ(sparse.plan.training.method, "lora");
  EXPECT_EQ(sparse.plan.training.rank, 16);
  EXPECT_EQ(sparse.plan.training.targets, std::vector<std::string>{"attention"});
  const auto shared = value_of(
      of("--bf16 --num-experts 16 --lora-r 16 --lora-target-modules linear_qkv mlp.shared_experts.linear_fc1"));
  EXPECT_EQ(shared.plan.training.targets, (std::vector<std::string>{"attention", "mlp"})) << "no routed expert";
  // slime's layers of Qwen3-Next: three of four have linear attention. A path that is not known is no argument.
  const auto next =
      value_of(of("--actor-num-nodes 1 --rollout-batch-size 8 --n-samples-per-prompt 1 --num-experts 16 "
                  "--moe-shared-expert-intermediate-size 512 --moe-ffn-hidden-size 512 "
                  "--group-query-attention --num-query-groups 2 --disable-bias-linear "
                  "--normalization RMSNorm --untie-embeddings-and-output-weights --qk-layernorm "
                  "--spec plugins.qwen3_next get_qwen3_next_spec --eval-prompt-data aime $DIR/a.jsonl"));
  EXPECT_EQ(next.config->model_type, "qwen3_next");
  EXPECT_EQ(next.shape.linear_layers, "4");
  EXPECT_TRUE(next.shape.output_gate);
  EXPECT_THAT(noted(next), testing::HasSubstr("get_qwen3_next_spec: its layers are priced"));
  // slime counts its GPUs and sequences itself; DeepSeek's router without latents is GLM's.
  const auto slime = value_of(
      import_style("ray job submit -- python3" + model +
                       "--actor-num-nodes 2 --num-experts 16 --moe-router-score-function sigmoid --qk-layernorm "
                       "--rollout-batch-size 128 --n-samples-per-prompt 8 --num-steps-per-rollout 4",
                   "slime.sh", {}));
  EXPECT_EQ(slime.plan.cluster.gpus, 16);
  EXPECT_EQ(slime.plan.batch.global_batch_size, 256);
  EXPECT_EQ(slime.plan.precision.gemm, Precision::bf16);
  EXPECT_EQ(slime.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(slime.config->model_type, "glm4_moe");
  EXPECT_THAT(noted(slime), testing::HasSubstr("a step of the training is priced, its rollout is not"));
  // 9216 tokens are four samples of 2048; a rank has 256 / 8 of them, which four divide.
  const auto packed = value_of(import_style("ray job submit -- python3" + model +
                                                "--actor-num-nodes 1 --rollout-batch-size 32 --n-samples-per-prompt 8 "
                                                "--use-dynamic-batch-size --max-tokens-per-gpu 9216",
                                            "slime.sh", {}));
  EXPECT_EQ(packed.plan.batch.micro_batch_size, 4);
  const auto rlhf = value_of(import_style(
      "NPROC_PER_NODE=8 megatron" + std::string(" rlhf") + model.substr(9) + "--torch_dtype bfloat16", "s.sh", {}));
  EXPECT_EQ(rlhf.plan.training.objective, "dpo") << "its default";
  EXPECT_EQ(rlhf.plan.batch.micro_batch_size, 2) << "a pair";
  const auto swift = value_of(import_style(
      "NPROC_PER_NODE=8 megatron" + std::string(" sft") + model.substr(9) + "--torch_dtype bfloat16", "s.sh", {}));
  EXPECT_EQ(swift.plan.precision.gemm, Precision::bf16);
}

// Numbers are Python's; what is none is refused, and so is what plumbline has no model of.
TEST(MegatronStyles, WrongNumbersAndEncodersAreRefused) {
  const auto of = [](const std::string& program, const std::string& arguments) {
    return import_style("torchrun --nproc_per_node 8 " + program +
                            " --num-layers 12 --hidden-size 1024 --num-attention-heads 16 --seq-length 1_024 "
                            "--max-position-embeddings 1024 --micro-batch-size 1 --vocab-size 32000 " +
                            arguments,
                        "n.sh", {});
  };
  const auto grouped = value_of(of("pretrain_gpt.py", "--bf16 --train-samples 2_000_000"));
  EXPECT_EQ(grouped.plan.run.tokens, 2e6 * 1024);
  EXPECT_THAT(error_of(of("pretrain_gpt.py", "--bf16 --train-samples 1e6")).message,
              testing::HasSubstr("--train-samples: '1e6' is no whole number"));
  EXPECT_THAT(noted(value_of(of("pretrain_gpt.py", ""))), testing::HasSubstr("--bf16 is not given: numbers are FP32"));
  for (const char* program : {"pretrain_bert.py", "examples/pretrain_t5.py"}) {
    const Error encoder = error_of(of(program, "--bf16"));
    EXPECT_THAT(encoder.message, testing::HasSubstr("trains an encoder"));
    EXPECT_THAT(encoder.hint, testing::HasSubstr("--model NAME"));
  }
  EXPECT_TRUE(of("pretrain_strict.py", "--bf16")) << "its name holds that of ICT";
  // Where a value must be, what is empty because the script does not set it is named.
  EXPECT_EQ(error_of(of("pretrain_gpt.py", "--tensor-model-parallel-size $tp")).hint, "--define tp=VALUE");
}

// Megatron's own loss works in place on FP32 logits; of its fusions one is within the head's GEMM.
TEST(MegatronStyles, LossesAreThoseOfTheFusion) {
  const auto of = [](const std::string& arguments) {
    return import_style(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 1024 "
        "--num-attention-heads 16 --seq-length 4096 --max-position-embeddings 4096 "
        "--micro-batch-size 1 --global-batch-size 64 --vocab-size 32000 --bf16 " +
            arguments,
        "loss.sh", {});
  };
  const std::string fused = "--cross-entropy-loss-fusion --cross-entropy-fusion-impl ";
  for (const auto& [arguments, kernel] : {std::pair<std::string, std::string>{"", "unfused_in_place"},
                                          {"--cross-entropy-fusion-impl te", "unfused_in_place"},
                                          {fused + "native", "fused"},
                                          {fused + "te", "fused_in_place"},
                                          {fused + "linear", "linear"}}) {
    const auto read = value_of(of(arguments));
    EXPECT_EQ(read.plan.loss.kernel, kernel) << arguments;
  }
  EXPECT_THAT(noted(value_of(of(fused + "liger"))), testing::HasSubstr("'liger' is none of native, te, linear"));
}

TEST(MegatronStyles, WhatAnExecutedScriptStartedIsImported) {
  const auto words = [](const std::string& text) {
    Command command;
    std::istringstream stream(text);
    for (std::string word; stream >> word;) command.push_back({word});
    return command;
  };
  const std::string arguments =
      " --num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 128 --seq-length 8 "
      "--micro-batch-size 1";
  Execution done;
  done.started = {words("python prepare.py --x"),
                  words("sbatch --nodes=2 torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py" + arguments),
                  words("torchrun --nproc_per_node 8 pretrain_gpt.py" + arguments)};
  done.skipped = {"git", "rm"};
  done.answered = {"nvidia-smi"};
  const auto read = value_of(import_execution(done, "#!/bin/bash\n# plumbline: overlap.communication_sms = 4\n", "s.sh",
                                              {.config = "m.json"}));
  EXPECT_EQ(read.plan.cluster.gpus, 16);
  EXPECT_EQ(read.plan.overlap.communication_sms, 4);
  std::vector<std::string> notes;
  for (const Note& note : read.notes) notes.push_back(note.text);
  EXPECT_THAT(
      notes,
      testing::IsSupersetOf(
          {"the script was executed; its training is 'sbatch --nodes=2 torchrun --nproc_per_node 8 --nnodes "
           "2 pretrain_gpt.py'",
           "started, and nothing done in their place: git, rm", "answered as one node of the cluster does: nvidia-smi",
           "a further training is left out: 'torchrun --nproc_per_node 8 pretrain_gpt.py'"}));
  const auto none = error_of(import_execution({.ending = "ended with status 3: no"}, "", "s.sh", {.config = "m.json"}));
  tests::expect_error(none, ErrorKind::input, "s.sh", 0, "", "executed and ended with status 3: no");
}

// Without an argument Megatron's default holds; what a script leaves open has the plan with it.
TEST(MegatronStyles, DecisionsHaveThePlanWithoutThem) {
  const auto read = value_of(import_style("slurm_array.sh", {}));
  const auto find = [&](const std::string& text) {
    const auto found = std::ranges::find(read.alternatives, text, &PlanAlternative::text);
    EXPECT_NE(found, read.alternatives.end()) << text;
    return found == read.alternatives.end() ? PlanAlternative() : *found;
  };
  const PlanAlternative pipeline = find("without --pipeline-model-parallel-size 4");
  EXPECT_EQ(place_of(read.files, pipeline.line), "slurm_array.sh:27");
  EXPECT_EQ(pipeline.plan.parallelism.pipeline, 1);
  EXPECT_EQ(pipeline.plan.parallelism.expert, 8);
  EXPECT_FALSE(find("without --overlap-grad-reduce").plan.overlap.gradient_reduce);
  for (const PlanAlternative& alternative : read.alternatives)
    EXPECT_THAT(alternative.text, testing::Not(testing::HasSubstr("--num-layers"))) << "the model is no decision";
  // The method alone means full, as in versions of 2021: it goes with the granularity.
  const auto full = value_of(import_style(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 "
      "--seq-length 1024 --max-position-embeddings 1024 --vocab-size 32000 --micro-batch-size 1 --bf16 "
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n",
      "s.sh", {}));
  const auto kept =
      std::ranges::find(full.alternatives, "without --recompute-granularity full", &PlanAlternative::text);
  ASSERT_NE(kept, full.alternatives.end());
  EXPECT_EQ(kept->plan.recompute.policy, "none");
}

// Scripts without an end are refused.
TEST(MegatronStyles, WorkIsBounded) {
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "if $X; then ";
  std::string nested = "run ";
  for (int i = 0; i < 5000; ++i) nested += "$(";
  for (const std::string& script : {std::string("while true; do X=1; done\n"), std::string("f() { f; f; }\nf\n"),
                                    std::string("x=1; until false; do x=$x$x; done\n"),
                                    std::string("eval() { eval eval; }\neval\n"), deep, nested}) {
    const auto read = import_style(script, "s.sh", {});
    ASSERT_FALSE(read) << script.substr(0, 60);
    EXPECT_THAT(read.error().message, testing::Not(testing::HasSubstr("no command runs"))) << script.substr(0, 60);
  }
}

// The ways in which context ranks reach each other's keys, of Megatron-LM and of MindSpeed.
TEST(MegatronStyles, ContextRanksSendHeads) {
  const auto method = [](const std::string& more) {
    const auto read = value_of(import_script(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
        "--seq-length 8192 --max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size 8 --vocab-size "
        "32000 --bf16 --context-parallel-size 2 " +
            more,
        "s.sh", {.config = "m.json"}));
    return read.plan.parallelism.context_method + (noted(read).find("priced like p2p") == std::string::npos ? "" : "?");
  };
  EXPECT_EQ(method(""), "ring");
  EXPECT_EQ(method("--cp-comm-type p2p"), "ring");
  EXPECT_EQ(method("--cp-comm-type all_gather"), "all-gather");
  EXPECT_EQ(method("--cp-comm-type a2a"), "all-to-all");
  EXPECT_EQ(method("--cp-comm-type a2a+p2p"), "ring?");
  EXPECT_EQ(method("--context-parallel-algo ulysses_cp_algo"), "all-to-all");
  EXPECT_EQ(method("--context-parallel-algo megatron_cp_algo"), "ring");
  EXPECT_EQ(method("--context-parallel-algo hybrid_cp_algo"), "ring?");
}

}  // namespace
}  // namespace plumbline::model::megatron
