// What model/ reads: plans, models, profiles, stacks, loads of experts, lengths of documents and requests, costs and
// orders of schedules.
#include <cmath>

#include "model/architecture/load_architecture.h"
#include "model/plan/plan.h"
#include "model/profile/profile.h"
#include "model/profile/stack.h"
#include "model/routing/files.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule_table.h"
#include "tests/fuzz/targets.h"

namespace plumbline::fuzz {

// A plan that is read is written with all of its defaults and then reads as the same plan, which states what a section
// implied.
void read_plan_text(std::string_view input) {
  auto plan = model::read_plan(input, input_file("plan.toml", ""), {});
  require_words(plan);
  if (!plan) return;
  for (auto& [key, place] : plan->places) place.implied_by.clear();
  const std::string written = to_toml(*plan);
  const auto again = model::read_plan(written, plan->file, {});
  require_read(again);
  require(to_toml(*again) == written, "a plan changes when it is written and read:\n" + written);
}

void read_model_config(std::string_view input) {
  require_words(model::load_architecture(input_file("config.json", input)));
}

void read_profile(std::string_view input) {
  require_words(model::load_profile(input_file("profile.toml", input), in_repository("calibrate/profiles")));
}

void read_stack(std::string_view input) {
  require_words(model::load_stack(input_file("stack.toml", input), in_repository("calibrate/stacks")));
}

void read_expert_loads(std::string_view input) {
  const auto loads = model::parse_expert_loads(input, "loads.csv");
  require_words(loads);
  if (loads) require_read(model::parse_expert_loads(model::expert_loads_csv(*loads, {}), "loads.csv"));
}

void read_document_lengths(std::string_view input) {
  const auto files = model::read_routing_files("", input_file("documents.txt", input), "");
  require_words(files);
  if (files)
    for (const double tokens : (*files)->document_lengths)
      require(std::isfinite(tokens) && tokens > 0, "a document has an impossible length");
}

void read_request_lengths(std::string_view input) {
  const auto files = model::read_routing_files("", "", input_file("requests.csv", input));
  require_words(files);
  if (files)
    for (const auto& [prompt, answer] : (*files)->requests)
      require(std::isfinite(prompt) && prompt >= 0 && std::isfinite(answer) && answer >= 0,
              "a request has an impossible length");
}

// The forms of costs: options of the command, a table of a file and a CSV.
void read_schedule_costs(std::string_view input) {
  const std::string text(input);
  require_words(model::parse_costs(input));
  require_words(model::costs_from_toml(text, "costs.toml"));
  require_words(model::costs_from_csv(text, "costs.csv"));
}

// An order that is read can be run.
void read_schedule_order(std::string_view input) {
  const auto kind = model::read_schedule_file(input_file("schedule.csv", input));
  require_words(kind);
  if (kind) require_read(model::evaluate((*kind)->build({}), model::ScheduleCosts()));
}

}  // namespace plumbline::fuzz
