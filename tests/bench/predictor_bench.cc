// Plans per second of a predictor in a search around the shipped DeepSeek-V3 plan on 2,048 H800: cold (every part
// computed at its first use), warm (all parts computed before), and with one predictor for each plan. Then the shipped
// plan by itself, intervals, and what a command reads before it predicts.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/inputs_reader.h"
#include "model/plan/layout.h"
#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/predict/predictor.h"
#include "sim/predict/simulate.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

struct Search {
  Inputs inputs;
  std::vector<model::Plan> plans;  // those that the layout allows
};

// imbalance: the ratio of expert rows; every distinct slot is then a run of the whole expert group. wired: the inputs
// have the links of the cluster, as those of the command and of Python.
Search search(const std::vector<std::int64_t>& zero_stages, double imbalance, bool wired = false) {
  const auto make = wired ? tests::wired_inputs : tests::step_inputs;
  Search search{make(tests::deepseek_plan, "h800", {}), {}};
  model::Plan plan = search.inputs.plan;
  plan.routing.imbalance = imbalance;
  plan.schedule.layers_per_stage = {};
  for (const std::int64_t micro_batch : {1, 2})
    for (const std::int64_t tensor : {1, 2, 4, 8})
      for (const std::int64_t pipeline : {1, 2, 4, 8, 16})
        for (const std::int64_t expert : {8, 16, 32, 64})
          for (const std::int64_t zero : zero_stages)
            for (const char* recompute : {"none", "selective", "full"})
              for (const char* kind :
                   {"1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipev", "interleaved", "interleaved-overlap"}) {
                plan.batch.micro_batch_size = micro_batch;
                plan.parallelism.tensor = tensor;
                plan.parallelism.sequence = tensor > 1;
                plan.parallelism.pipeline = pipeline;
                plan.parallelism.expert = expert;
                plan.parallelism.zero_stage = zero;
                plan.recompute.policy = recompute;
                plan.schedule.kind = kind;
                plan.schedule.virtual_stages = plan.schedule.kind.starts_with("interleaved") ? 2 : 1;
                if (model::make_layout(plan, search.inputs.architecture)) search.plans.push_back(plan);
              }
  return search;
}

void evaluate_all(Predictor& predictor, const Search& search) {
  for (const model::Plan& plan : search.plans) benchmark::DoNotOptimize(predictor.closed_form(plan));
}

void report(benchmark::State& state, const Search& search) {
  const auto plans = static_cast<double>(search.plans.size());
  state.counters["plans"] = plans;
  state.counters["plans_per_s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * plans, benchmark::Counter::kIsRate);
}

void cold(benchmark::State& state, const std::vector<std::int64_t>& zero_stages, double imbalance) {
  const Search all = search(zero_stages, imbalance);
  Predictor predictor(all.inputs);
  for (auto _ : state) {
    predictor = Predictor(all.inputs);
    evaluate_all(predictor, all);
  }
  report(state, all);
}
BENCHMARK_CAPTURE(cold, zero_0_to_2, {0, 1, 2}, 0)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(cold, zero_1_uneven, {1}, 0.075)->Unit(benchmark::kMillisecond)->Iterations(1);

void warm(benchmark::State& state, const std::vector<std::int64_t>& zero_stages, double imbalance, bool wired) {
  const Search all = search(zero_stages, imbalance, wired);
  Predictor predictor(all.inputs);
  evaluate_all(predictor, all);
  for (auto _ : state) evaluate_all(predictor, all);
  report(state, all);
}
BENCHMARK_CAPTURE(warm, zero_0_to_2, {0, 1, 2}, 0, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(warm, wired_zero_0_to_2, {0, 1, 2}, 0, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(warm, zero_3, {3}, 0, false)->Unit(benchmark::kMillisecond);

// A whole search: the degrees above with communication SMs and overlaps, so that most plans share their graphs but not
// their times.
void mixed(benchmark::State& state) {
  Search all = search({0, 1, 2, 3}, 0);
  const std::vector<model::Plan> degrees = std::exchange(all.plans, {});
  for (model::Plan plan : degrees)
    for (const std::int64_t sms : {16, 20})
      for (const bool overlap : {true, false}) {
        plan.overlap.communication_sms = sms;
        plan.overlap.gradient_reduce = plan.overlap.parameter_gather = overlap;
        all.plans.push_back(plan);
      }
  Predictor predictor(all.inputs);
  for (auto _ : state) {
    predictor = Predictor(all.inputs);
    evaluate_all(predictor, all);
  }
  report(state, all);
}
BENCHMARK(mixed)->Unit(benchmark::kMillisecond)->Iterations(1);

// Steps of some of the same plans by events: with one predictor for all, and with simulate().
void by_events(benchmark::State& state, const std::vector<std::int64_t>& zero_stages, double imbalance) {
  Search all = search(zero_stages, imbalance);
  std::vector<model::Plan> sample;
  const std::size_t every = all.plans.size() / 50;
  for (std::size_t i = 0; i < all.plans.size(); i += every) sample.push_back(all.plans[i]);
  all.plans = sample;
  Predictor predictor(all.inputs);
  evaluate_all(predictor, all);
  for (auto _ : state)
    for (const model::Plan& plan : all.plans) benchmark::DoNotOptimize(predictor.events(plan));
  report(state, all);
}
BENCHMARK_CAPTURE(by_events, zero_0_and_1, {0, 1}, 0)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(by_events, zero_0_and_1_uneven, {0, 1}, 0.075)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(by_events, zero_2, {2}, 0)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(by_events, zero_3, {3}, 0)->Unit(benchmark::kMillisecond);

void simulate_by_events(benchmark::State& state, const std::vector<std::int64_t>& zero_stages, double imbalance) {
  Search all = search(zero_stages, imbalance);
  all.inputs.routing = std::make_shared<ExpertGroupMemo>();
  const std::size_t every = all.plans.size() / 50;
  std::int64_t plans = 0;
  for (auto _ : state)
    for (std::size_t i = 0; i < all.plans.size(); i += every, ++plans) {
      all.inputs.plan = all.plans[i];
      benchmark::DoNotOptimize(simulate(all.inputs, Fidelity::step, false));
    }
  state.counters["plans_per_s"] = benchmark::Counter(static_cast<double>(plans), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(simulate_by_events, zero_0_and_1, {0, 1}, 0)->Unit(benchmark::kMillisecond);

// The same plan repeatedly.
void warm_shipped_plan(benchmark::State& state) {
  const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  Predictor predictor(inputs);
  for (auto _ : state) benchmark::DoNotOptimize(predictor.closed_form(inputs.plan));
}
BENCHMARK(warm_shipped_plan)->Unit(benchmark::kMicrosecond);

void closed_form_shipped_plan(benchmark::State& state) {
  Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  inputs.routing = std::make_shared<ExpertGroupMemo>();
  for (auto _ : state) benchmark::DoNotOptimize(simulate(inputs, Fidelity::closed_form, false));
}
BENCHMARK(closed_form_shipped_plan)->Unit(benchmark::kMicrosecond);

// All draws of an interval and the gradient of its parts.
void interval(benchmark::State& state, const std::string& plan) {
  const Inputs inputs = tests::wired_inputs(plan, "h800");
  const model::StepResult result = simulate(inputs, Fidelity::closed_form, false)->result;
  for (auto _ : state) benchmark::DoNotOptimize(interval_of(inputs, result));
}
BENCHMARK_CAPTURE(interval, deepseek_v3, tests::deepseek_plan)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(interval, llama_3_8b, tests::llama_plan)->Unit(benchmark::kMillisecond)->UseRealTime();

void layout_of_shipped_plan(benchmark::State& state) {
  const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  for (auto _ : state) benchmark::DoNotOptimize(model::make_layout(inputs.plan, inputs.architecture));
}
BENCHMARK(layout_of_shipped_plan)->Unit(benchmark::kMicrosecond);

// What a command reads first, at each call anew: plan, model, cluster, profile, stack and what is left of other
// people's steps.
void read_inputs(benchmark::State& state, const std::string& plan) {
  for (auto _ : state) benchmark::DoNotOptimize(cli::InputsReader().load(plan, {}).value());
  state.counters["plans_per_s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(read_inputs, dense, "llama-3-8b-64xh800")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_inputs, experts, "deepseek-v3-2048xh800")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumbline::sim
