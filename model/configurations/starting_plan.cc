#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "model/configurations/draft.h"
#include "model/configurations/import.h"

namespace plumbline::model::configurations {
namespace {

struct Layout {
  std::int64_t tensor;
  std::string_view recompute;
};
// Where memory decides, what costs least comes first.
constexpr Layout layouts[] = {{1, "none"}, {1, "full"}, {8, "full"}};

void assume_batch(Draft& draft, const Architecture& architecture) {
  constexpr std::int64_t usual_length = 4096, usual_tokens = 4'194'304;
  const std::int64_t table = architecture.position_table > 0 ? architecture.position_table : usual_length;
  draft.assume("batch.sequence_length", std::min(usual_length, table), "usual in pretraining");
  draft.assume("batch.micro_batch_size", std::int64_t{1}, "the least memory");
  const auto length = draft.value("batch.sequence_length"), micro = draft.value("batch.micro_batch_size");
  const auto data = draft.data_parallel();
  if (!length || !micro || !data || *length < 1 || *micro < 1) return;
  const std::int64_t once = bounded_product({*micro, *data});
  const std::int64_t steps = std::max<std::int64_t>(1, usual_tokens / *length / once);
  draft.assume("batch.global_batch_size", bounded_product({once, steps}),
               "4 million tokens, or one micro-batch a rank if that is more");
}

void assume_layout(Draft& draft, const Architecture& architecture, const Layout& layout) {
  if (layout.tensor > 1) {
    draft.assume("parallelism.tensor", layout.tensor, "it does not fit with less");
    draft.assume("parallelism.sequence", true, "with tensor parallelism");
  }
  draft.assume("parallelism.zero_stage", std::int64_t{3}, "FSDP: the least memory");
  draft.assume("recompute.policy", layout.recompute,
               layout.recompute == "none" ? "it fits" : "it does not fit without");
  draft.assume("stack.name", "pytorch-fsdp-eager", "FSDP of eager PyTorch");
  const std::int64_t experts = architecture.experts.routed_experts, gpus = draft.value("cluster.gpus").value_or(1);
  constexpr std::int64_t node = 8;
  if (experts > 0 && gpus > 0)
    draft.assume("parallelism.expert", std::gcd(std::gcd(experts, node), gpus), "experts over the GPUs of a node");
}

}  // namespace

Result<ImportedConfiguration> starting_plan(const std::string& model, const std::string& path,
                                            const Architecture& architecture, const std::vector<std::string>& overrides,
                                            const std::function<Result<bool>(const Plan& plan)>& fits) {
  const Configuration nothing{path, {}};
  ImportedConfiguration out;
  for (const Layout& layout : layouts) {
    Draft draft(nothing, "Hugging Face", overrides);
    draft.set("model.config", model, "");
    draft.assume("cluster.topology", "h100-dgx", "--topology names another");
    if (layout.tensor > 1 && draft.value("cluster.gpus").value_or(0) % layout.tensor != 0) break;
    assume_layout(draft, architecture, layout);
    assume_batch(draft, architecture);
    out.plan = TRY(draft.plan());
    out.toml = draft.toml(out.plan);
    out.notes = draft.notes();
    if (TRY(fits(out.plan))) return out;
  }
  out.notes.push_back(
      {Note::Kind::assumed, 0, "none of the first layouts fits: take more GPUs, or search with plumbline plan"});
  return out;
}

}  // namespace plumbline::model::configurations
