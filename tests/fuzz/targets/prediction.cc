// A prediction to its end, in closed form, of plans of a size that is predicted within a fraction of a second.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "cli/data.h"
#include "cli/inputs_reader.h"
#include "model/architecture/load_architecture.h"
#include "model/base/text.h"
#include "model/plan/layout.h"
#include "sim/predict/predictor.h"
#include "tests/fuzz/targets.h"

namespace plumbline::fuzz {
namespace {

// Returns whether the parts of a plan of which time and memory of a prediction grow are small.
bool is_small(const model::Plan& plan, const model::Architecture& architecture) {
  constexpr std::int64_t gpus = 2048, layers = 128, experts = 512, tokens = 1 << 20, micro_batches = 128, virtuals = 16;
  if (plan.cluster.gpus > gpus || architecture.layers > layers || plan.schedule.virtual_stages > virtuals) return false;
  if (architecture.experts.routed_experts > experts) return false;
  if (plan.batch.sequence_length > tokens) return false;
  const auto layout = model::make_layout(plan, architecture);
  return !layout || layout->micro_batches <= micro_batches;
}

// A prediction reads no files but shipped ones, and no other plan.
bool names_files(const std::string& line) {
  constexpr std::array keys = {"load_file", "document_lengths", "lengths", "background_plan", "fleet", "placement"};
  return line.find('/') != std::string::npos ||
         std::ranges::any_of(keys, [&](const char* key) { return line.find(key) != std::string::npos; });
}

// Profiles, stacks and clusters are read once for many plans. What a reader keeps grows with the variations that it has
// seen, so it is replaced now and then.
cli::InputsReader& shared_reader() {
  constexpr unsigned plans = 512;
  static unsigned uses = 0;
  static std::unique_ptr<cli::InputsReader> reader;
  if (uses++ % plans == 0) reader = std::make_unique<cli::InputsReader>();
  return *reader;
}

void require_possible(const model::StepResult& result) {
  const auto possible = [](double value) { return std::isfinite(value) && value >= 0; };
  require(possible(result.step.time_s) && result.step.time_s > 0, "a step takes no possible time");
  require(possible(result.step.mfu) && possible(result.step.tokens_per_s), "a step has an impossible rate");
  require(possible(result.memory.peak_bytes), "a rank has an impossible peak of memory");
  constexpr double rounding = 1e-9;
  if (result.bound_s)
    require(*result.bound_s <= result.step.time_s * (1 + rounding), "a step is faster than its lower bound");
}

}  // namespace

void predict_plan(std::string_view input) {
  std::vector<std::string> lines;
  for (const std::string_view line : model::lines_of(input))
    if (!line.empty()) lines.emplace_back(line);
  if (lines.empty() || std::ranges::any_of(lines, &names_files)) return;
  const std::string name = lines.front();
  lines.erase(lines.begin());

  std::vector<std::string> of_plan = lines;
  if (!cli::take_constant_changes(of_plan)) return;
  const auto plan = cli::find_plan(name, of_plan);
  require_words(plan);
  if (!plan) return;
  const auto config = cli::resolve_model(plan->file, plan->model.config);
  if (!config) return;
  const auto architecture = model::load_architecture_of(*plan, *config);
  require_words(architecture);
  if (!architecture || !is_small(*plan, *architecture)) return;
  auto inputs = shared_reader().load(name, lines);
  require_words(inputs);
  if (!inputs) return;
  const model::Plan effective = inputs->plan;
  const auto simulation =
      sim::Predictor(*std::move(inputs)).simulate(effective, {.fidelity = sim::Fidelity::closed_form});
  require_words(simulation);
  if (simulation) require_possible(simulation->result);
}

}  // namespace plumbline::fuzz
