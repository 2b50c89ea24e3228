// What trains: all weights, or the adapters of ms-swift; and what updates it.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/megatron/rules.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::int64_t silent_rank = 8;  // of ms-swift
constexpr std::string_view silent_modules = "all-linear";
constexpr const char* modules_of_mindspeed = "--lora-target-modules";

// Names of Megatron Core (linear_qkv, linear_fc1) and of Hugging Face (q_proj, down_proj).
std::vector<std::string> targets_of(const std::vector<std::string>& targeted, bool experts) {
  const auto names = [&targeted](std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(targeted, [&parts](const std::string& module) {
      return std::ranges::any_of(parts, [&](std::string_view part) { return module.find(part) != std::string::npos; });
    });
  };
  const bool all = names({silent_modules});
  const bool mlp = all || names({"fc", "gate", "up_proj", "down_proj"});
  std::vector<std::string> targets;
  if (all || names({"linear_q", "linear_kv", "linear_proj", "q_proj", "k_proj", "v_proj", "o_proj"}))
    targets.emplace_back("attention");
  if (mlp) targets.emplace_back("mlp");
  if (mlp && experts) targets.emplace_back("experts");
  return targets;
}

void read_training(const RuleReader& in) {
  const bool adapters = in.given.has(modules_of_mindspeed);
  const std::string method = in.given.value("--train-type").value_or(adapters ? "lora" : "full");
  if (method == "full") return;
  if (method != "lora") return in.note("--train-type", "'" + method + "' is not modelled: all weights train");
  std::vector<std::string> targeted = in.given.values(adapters ? modules_of_mindspeed : "--target-modules");
  if (targeted.empty()) targeted.emplace_back(silent_modules);
  auto& training = in.plan.training;
  training.method = method;
  training.rank = in.number("--lora-rank").value_or(silent_rank);
  training.targets = targets_of(targeted, in.shape.experts.has_value());
  if (!training.targets.empty()) return;
  training.targets = targets_of({std::string(silent_modules)}, in.shape.experts.has_value());
  in.note("--target-modules", "no module of attention or MLP is named: all-linear is priced");
}

constexpr const char* optimizer = "--optimizer";

void read_optimizer(const RuleReader& in) {
  const std::string kind = in.given.value(optimizer).value_or("adam");
  if (kind.ends_with("muon"))
    in.plan.optimizer.kind = "muon";
  else if (kind != "adam")
    in.notes.push_back(
        {in.given.line(optimizer),
         std::string(optimizer) + " " + kind + ": not modelled; it can change the cost: the optimizer is Adam",
         NoteKind::not_modeled});
}

// Megatron's Muon takes no distributed optimizer.
void write_optimizer(const RuleWriter& out) {
  if (out.plan.optimizer.kind == "muon" && out.plan.parallelism.zero_stage == 0) out.out.put(optimizer, "muon");
}

}  // namespace

Rule optimizer_rule() { return {read_optimizer, write_optimizer}; }

Rule training_rule() {
  return {read_training, [](const RuleWriter&) {}};  // Megatron-LM has no argument for adapters
}

}  // namespace plumbline::model::megatron
