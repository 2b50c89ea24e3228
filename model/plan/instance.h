// An instance of an engine: the GPUs that serve requests together. Its degrees are those of [parallelism] and
// [inference], or of one pool of a disaggregated deployment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/routing/files.h"

namespace plumbline::model {

enum class PoolKind : std::uint8_t { both, prefill, decode };
std::string_view to_string(PoolKind kind);

// `tensor` ranks share the heads of a request, `attention_data` such groups have requests of their own, and each of
// `pipeline` stages has tensor * attention_data GPUs. `expert` groups of these share the experts of a layer; the ranks
// of a group share the columns of each expert.
struct Instance {
  std::int64_t tensor = 1, pipeline = 1, expert = 1, attention_data = 1, redundant_experts = 0;
  bool two_micro_batches = false;

  std::int64_t stage_gpus() const { return tensor * attention_data; }
  std::int64_t gpus() const { return pipeline * stage_gpus(); }
  std::int64_t expert_tensor() const { return stage_gpus() / expert; }
  bool operator==(const Instance&) const = default;
};

// Returns the lengths of the requests that are served: those of inference.lengths, or the plan's one.
std::vector<RequestLength> requests_of(const Plan& plan);
// Returns the tokens of the longest of them at its end in a pool: of its prompt where that only prefills.
double longest_request(const Plan& plan, PoolKind pool);

// Returns the instance of that pool, unchecked.
Instance instance_of(const Plan& plan, PoolKind pool);

// Returns the same after checking that its degrees divide what they share: heads, columns, experts with their copies,
// layers. Infeasible errors have the key that states the degree and the nearest degrees that work.
Result<Instance> make_instance(const Plan& plan, const Architecture& architecture, PoolKind pool);

// How experts' results reach their tokens where inference.dispatch is "all-reduce": every rank has the same tokens or
// gathers them, and what the experts of each add is summed.
inline constexpr std::string_view all_reduce_dispatch = "all-reduce";

// Returns inference.dispatch of an instance. With "auto" experts that lie on tensor ranks without attention data
// parallelism are summed by the all-reduce that dense layers have too, as engines do it: vllm-project/vllm
// vllm/model_executor/layers/fused_moe/config.py (use_all2all_kernels asks for dp_size > 1), sgl-project/sglang
// python/sglang/srt/server_args.py (moe_a2a_backend is "none"), NVIDIA/TensorRT-LLM tensorrt_llm/_torch/modules/
// fused_moe/communication/communication_factory.py (no communication without enable_attention_dp). Groups with requests
// of their own on up to eight ranks, a node's, gather all tokens and sum the results by a reduce-scatter, which engines
// do by default: vllm/config/parallel.py (all2all_backend is "allgather_reducescatter"), SGLang's
// moe_a2a_backend again, TensorRT-LLM tensorrt_llm/_torch/modules/fused_moe.py (allgather and reducescatter with
// use_dp). On more ranks they send tokens by DeepEP's kernels of June 2025, as vLLM's docs/serving/
// expert_parallel_deployment.md advises for several nodes.
std::string dispatch_of(const Plan& plan, const Instance& instance);

// What speculates tokens (inference.draft): a module that was trained with the model, a head of one dense layer over
// the model's last hidden state, a look-up of the last tokens in the text before, or a small model.
enum class DraftKind : std::uint8_t { none, module, head, lookup, model };

// Returns what speculates; none where no tokens are.
DraftKind draft_of(const Plan& plan, const Architecture& architecture);
// Returns what stands in inference.draft for a kind; "" for none and for a model.
std::string_view to_string(DraftKind kind);

// Returns the probabilities that speculated tokens are accepted after accepted ones by their position, of which the
// last one holds for all later positions: the plan's, or else those published of the kind. Empty where nothing
// speculates.
std::vector<double> acceptance_of(const Plan& plan, const Architecture& architecture);

// The first of the published ones: between `low` and `high` in eight of ten cases.
struct AcceptanceRange {
  double low = 0, middle = 0, high = 0;
};
// Returns it; nothing where the plan states an acceptance, or nothing speculates.
std::optional<AcceptanceRange> acceptance_range(const Plan& plan, const Architecture& architecture);

// Returns the key that gives a degree of the pool: "inference.decode.tensor" where that table has it, else
// "parallelism.tensor" or "inference.attention_data".
std::string degree_key(const Plan& plan, PoolKind pool, std::string_view name);

}  // namespace plumbline::model
