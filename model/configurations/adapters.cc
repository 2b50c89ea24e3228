// Adapters: the linear layers that the trainers' modules name.
#include <fmt/format.h>

#include <string_view>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {

bool refuse_adapter(Draft& draft, std::string_view key, std::string_view method) {
  if (draft.given("training.method")) return false;
  draft.fail(key, fmt::format("{} is not read", method),
             "--set training.method=lora, training.rank=N and training.targets=[...] state adapters, "
             "training.method=full that all weights train");
  return true;
}

AdapterTargets read_adapter_layers(const RuleInput& in, std::string_view key) {
  const AdapterTargets targets = adapter_targets(in.draft.list(key), in.has_experts());
  if (targets.words().empty())
    in.draft.fail(key, "no module of attention or MLP is named", "--set training.targets=[...] states them");
  else
    in.draft.set("training.targets", targets.words(), key);
  return targets;
}

void read_adapters(const RuleInput& in, const AdapterKeys& keys) {
  in.draft.set("training.method", keys.method, keys.rank);
  in.draft.set("training.rank", in.draft.integer(keys.rank).value_or(8), keys.rank);
  const auto modules = in.draft.list(keys.targets);
  const bool all = in.draft.text(keys.targets) == "all-linear" || keys.targets.ends_with("match_all_linear");
  if (modules.empty() || all)
    in.draft.set("training.targets", "all-linear", keys.targets);
  else if (!in.draft.given("training.targets"))
    read_adapter_layers(in, keys.targets);
}

}  // namespace plumbline::model::configurations
