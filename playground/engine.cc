// The predictor for a page: plans as TOML in, the JSON of `simulate` out.
#include <emscripten/bind.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/inputs_reader.h"
#include "reports/json/json.h"
#include "sim/analysis/assumed.h"
#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/predict/predictor.h"
#include "sim/predict/simulate.h"

namespace plumbline::playground {
namespace {

using Json = nlohmann::ordered_json;
using model::Result;
using Strings = std::vector<std::string>;

// An object with the one key `error`: what is wrong, where, and what to do.
std::string error_json(const model::Error& error) {
  const bool infeasible = error.kind == model::ErrorKind::infeasible;
  return Json{{"error",
               {{"kind", infeasible ? "infeasible" : "input"},
                {"key", error.key},
                {"line", error.line},
                {"message", error.message},
                {"hint", error.hint}}}}
      .dump();
}

std::string text_or_error(const Result<std::string>& text) { return text ? *text : error_json(text.error()); }

// Slots of the pipeline by column: what runs on which rank from when to when, in seconds.
Json slots_json(const model::Timeline& timeline) {
  constexpr double seconds_per_ps = 1e-12;
  Json rank = Json::array(), start = Json::array(), duration = Json::array(), name = Json::array(),
       micro_batch = Json::array();
  for (const model::Span& span : timeline.spans) {
    if (span.depth != model::slot_depth || span.stream != model::Stream::compute) continue;
    rank.push_back(span.rank);
    start.push_back(static_cast<double>(span.start_ps) * seconds_per_ps);
    duration.push_back(static_cast<double>(span.duration_ps) * seconds_per_ps);
    name.push_back(span.name);
    micro_batch.push_back(span.micro_batch);
  }
  return {{"ranks", timeline.ranks},     {"end_s", static_cast<double>(timeline.end_ps) * seconds_per_ps},
          {"names", timeline.names},     {"rank", std::move(rank)},
          {"start_s", std::move(start)}, {"duration_s", std::move(duration)},
          {"name", std::move(name)},     {"micro_batch", std::move(micro_batch)}};
}

// Takes a plan as TOML, with an array of KEY=VALUE that change it. Files that it names are searched among those that
// the page has written to /input, then among the shipped ones, and read once.
class Engine {
 public:
  // Returns the JSON of `simulate --fidelity closed-form`, with its interval from so many draws and what was assumed;
  // 0: without.
  std::string simulate(const std::string& plan, const emscripten::val& changes, unsigned draws) {
    return text_or_error(simulated(plan, emscripten::vecFromJSArray<std::string>(changes), draws));
  }

  // Returns the slots of a step on the heap loop.
  std::string pipeline(const std::string& plan, const emscripten::val& changes) {
    const auto slots = [&]() -> Result<std::string> {
      const auto inputs = TRY(inputs_of(plan, emscripten::vecFromJSArray<std::string>(changes)));
      return slots_json(TRY(sim::simulate(inputs, sim::Fidelity::step, true)).timeline).dump();
    };
    return text_or_error(slots());
  }

 private:
  Result<sim::Inputs> inputs_of(const std::string& plan, Strings changes) {
    const auto constants = TRY(cli::take_constant_changes(changes));
    const auto read = TRY(model::read_plan(plan, "/input/plan.toml", changes));
    if (read.rollout.given)
      return tl::unexpected(model::plan_error(read, model::ErrorKind::input, "rollout",
                                              "no engine that generates is in the page",
                                              "use plumbline simulate, or leave [rollout] out"));
    return reader_.of_plan(read, std::nullopt, constants);
  }

  // Returns the predictor of the last plan where this one may share it. Goodput, which a campaign gives, is not shared.
  sim::Predictor& predictor_of(const std::string& plan, const Strings& changes, const sim::Inputs& inputs) {
    std::string key = plan;
    for (const std::string& change : changes)
      if (!cli::is_of_plan_alone(change)) key += "\n" + change;
    if (!predictor_ || inputs.campaign || key != key_) {
      sim::Inputs own = inputs;
      own.routing = std::make_shared<sim::ExpertGroupMemo>();
      predictor_.emplace(std::move(own));
    }
    key_ = inputs.campaign ? "" : std::move(key);
    return *predictor_;
  }

  Result<std::string> simulated(const std::string& plan, const Strings& changes, unsigned draws) {
    constexpr auto fidelity = sim::Fidelity::closed_form;
    const auto inputs = TRY(inputs_of(plan, changes));
    auto simulation = TRY(predictor_of(plan, changes, inputs).simulate(inputs.plan, {.fidelity = fidelity}));
    std::optional<sim::IntervalOptions> interval;
    if (draws > 0) interval = {.draws = draws};
    TRY(sim::add_spread(inputs, simulation.result, interval));
    if (interval) simulation.result.assumed = TRY(sim::assumed_of_step(inputs));
    return reports::to_json(simulation.result, inputs.plan);
  }

  cli::InputsReader reader_;
  std::string key_;  // of the plans that share the predictor
  std::optional<sim::Predictor> predictor_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(plumbline) {
  emscripten::class_<Engine>("Engine")
      .constructor<>()
      .function("simulate", &Engine::simulate)
      .function("pipeline", &Engine::pipeline);
}

}  // namespace plumbline::playground
