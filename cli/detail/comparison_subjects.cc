#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/answers.h"
#include "cli/data.h"
#include "cli/detail/foreign_file.h"
#include "cli/inputs.h"
#include "cli/progress.h"
#include "model/base/text_file.h"
#include "model/cost/operator_class.h"
#include "model/economics/ownership.h"
#include "model/plan/layout.h"
#include "model/plan/rollout.h"
#include "model/program/compile.h"
#include "reports/json/read_json.h"
#include "reports/text/table.h"
#include "sim/cluster/cluster_step.h"
#include "sim/interval/interval.h"
#include "sim/predict/predictor.h"
#include "sim/rollout/rollout.h"
#include "sim/search/cluster_option.h"

namespace plumbline::cli {
namespace {

using model::ComparisonSubject;
using model::Result;

// State that all subjects share.
struct Shared {
  ConstantChanges changes;
  InputsReader reader = InputsReader(Purpose::stated);
  sim::PredictorPool predictors;
};

Result<sim::Simulation> simulated(const sim::Inputs& inputs, const SubjectRequest& request, Shared& shared) {
  if (request.fidelity == sim::Fidelity::cluster) return sim::simulate_cluster(inputs, {.record = request.timelines});
  return shared.predictors.with(inputs, [&](sim::Predictor& predictor) {
    if (request.fidelity == sim::Fidelity::step)
      return sim::simulate_on_network(predictor, inputs.plan, request.timelines);
    return predictor.simulate(inputs.plan, {.fidelity = request.fidelity, .record = request.timelines});
  });
}

struct Prediction {
  model::Plan plan;  // with the settings of its stack
  sim::Simulation simulation;
  std::map<std::string, std::string> operator_classes;
  model::Timeline baseline;
  std::optional<model::ServingResult> serving = {};
  std::optional<double> usd_per_gpu_hour = {};
};

// Returns the row of the breakdown of each operator of a step.
std::map<std::string, std::string> operator_classes(const sim::Inputs& inputs) {
  std::map<std::string, std::string> classes;
  const auto layout = model::make_layout(inputs.plan, inputs.architecture);
  if (!layout) return classes;
  const auto program = model::compile(inputs.plan, inputs.architecture, *layout);
  if (!program) return classes;
  for (const model::Graph& block : program->blocks)
    for (const model::Operator& op : block.operators)
      classes[op.name] = model::breakdown_name(model::operator_class(block, op));
  return classes;
}

Result<Prediction> deployment_prediction(const sim::Inputs& inputs, bool interval) {
  const sim::IntervalOptions options{.draws = sim::serving_draws, .parts = false};
  constexpr double middle = 0.5;
  auto serving = TRY(interval ? sim::predict_serving_within(inputs, middle, options) : sim::predict_serving(inputs));
  sim::add_fit(inputs, serving, options);
  Prediction prediction{inputs.plan, {}, {}, {}};
  model::StepResult& result = prediction.simulation.result;
  result.fidelity = sim::to_string(sim::Fidelity::closed_form);
  result.device = inputs.cluster.device.name;
  result.profile = inputs.profile.name();
  result.stack = inputs.profile.stack();
  result.memory = model::memory_of(serving);
  const auto price = model::hourly_price(inputs.plan, inputs.cluster);
  if (price.value) prediction.usd_per_gpu_hour = price.value->value;
  prediction.serving = std::move(serving);
  return prediction;
}

Result<Prediction> predict(const model::Plan& plan, const SubjectRequest& request, Shared& shared) {
  const auto inputs = TRY(shared.reader.of_plan(plan, request.profile, shared.changes));
  if (model::is_deployment(inputs.plan)) return deployment_prediction(inputs, request.intervals);
  auto simulation = TRY(simulated(inputs, request, shared));
  sim::add_fit(inputs, simulation.result.memory);
  std::optional<sim::StepDraws> draws;
  if (request.intervals) {
    auto drawn = TRY(sim::draw_interval(inputs, simulation.result, {}));
    simulation.result.interval = std::move(drawn.interval);
    draws = std::move(drawn.draws);
  }
  TRY(sim::add_rollout(inputs, simulation.result, draws, {}));
  if (simulation.result.rollout_error) return tl::unexpected(*simulation.result.rollout_error);
  Prediction prediction{inputs.plan, std::move(simulation), {}, {}};
  if (!request.timelines) return prediction;
  prediction.operator_classes = operator_classes(inputs);
  if (!request.baseline) return prediction;
  const auto other = TRY(shared.reader.of_plan(plan, request.baseline, shared.changes));
  auto baseline = TRY(simulated(other, request, shared));
  prediction.baseline = std::move(baseline.timeline);
  return prediction;
}

struct NamedPlan {
  std::string name;
  model::Plan plan;
};

ComparisonSubject predicted_subject(NamedPlan named, Result<Prediction> done, const SubjectRequest& request) {
  ComparisonSubject subject{std::move(named.name), "plan", std::move(named.plan), model::StepResult(), ""};
  if (!done) {
    subject.result = tl::unexpected(std::move(done.error()));
    return subject;
  }
  subject.plan = std::move(done->plan);
  subject.result = std::move(done->simulation.result);
  subject.timeline = std::move(done->simulation.timeline);
  subject.rank_names = std::move(done->simulation.rank_names);
  subject.serving = std::move(done->serving);
  subject.usd_per_gpu_hour = done->usd_per_gpu_hour;
  subject.operator_classes = std::move(done->operator_classes);
  subject.baseline = request.baseline.value_or("");
  subject.baseline_timeline = std::move(done->baseline);
  return subject;
}

// Returns one plan on each cluster with each number of GPUs, after the plan itself when there is only one variant.
Result<std::vector<NamedPlan>> variants(const std::string& name, const model::Plan& plan,
                                        const SubjectRequest& request) {
  std::vector<NamedPlan> found;
  const std::vector<std::string> clusters = request.clusters.empty() ? std::vector<std::string>{""} : request.clusters;
  const std::vector<std::int64_t> gpus = request.gpus.empty() ? std::vector<std::int64_t>{0} : request.gpus;
  for (const std::string& cluster : clusters) {
    for (const std::int64_t count : gpus) {
      NamedPlan& variant = found.emplace_back(NamedPlan{cluster, plan});
      if (!cluster.empty() && cluster != plan.cluster.topology) {
        sim::forget_cluster(variant.plan);
        variant.plan.cluster.topology = cluster;
        variant.plan.places["cluster.topology"] = {"--cluster", 0, "", ""};
      }
      if (count == 0) continue;
      variant.plan.cluster.gpus = count;
      if (variant.plan.rollout.given) TRY(model::complete_rollout(variant.plan));
      variant.name +=
          fmt::format("{}{} GPUs", cluster.empty() ? "" : ", ", reports::grouped(static_cast<double>(count)));
    }
  }
  if (found.size() == 1) found.insert(found.begin(), {name, plan});
  return found;
}

std::string short_name(const std::string& subject) { return std::filesystem::path(subject).stem().string(); }

// Returns the text of a subject, or nullptr where it is a file.
const std::string* text_of(const std::string& subject, const SubjectRequest& request) {
  const auto text = request.texts.find(subject);
  return text == request.texts.end() ? nullptr : &text->second;
}

bool is_result(const std::string& subject, const SubjectRequest& request) {
  const std::string* text = text_of(subject, request);
  return text != nullptr ? text->starts_with('{') : reports::is_result(subject);
}

Result<ComparisonSubject> read_subject(const std::string& path, const SubjectRequest& request) {
  const std::string* given = text_of(path, request);
  if (given == nullptr) TRY(refuse_foreign(path, "result"));
  const auto text = given != nullptr ? *given : TRY(model::read_text_file(path));
  auto stored = TRY(reports::read_result(text, path));
  ComparisonSubject subject{short_name(path), "result", std::move(stored.plan), std::move(stored.result), text};
  subject.timeline = std::move(stored.timeline);
  subject.clock = std::move(stored.clock);
  subject.measured_seconds = std::move(stored.measured_seconds);
  return subject;
}

Result<std::vector<NamedPlan>> read_plans(const std::string& subject, const std::vector<std::string>& overrides,
                                          const SubjectRequest& request) {
  const std::string* text = text_of(subject, request);
  const auto shipped = [](const std::string& name) { return resolve(Shipped::plan, name); };
  const auto path =
      text != nullptr ? Result<std::string>(subject) : whole_name(subject, {Shipped::plan}).and_then(shipped);
  if (!path) {
    model::Error error = path.error();
    error.hint =
        "a plan (.toml), a result of `simulate --json` or `run --json` (.json) or, next to one plan, a chunk "
        "measurement (.csv) is expected; " +
        error.hint;
    return tl::unexpected(error);
  }
  const auto plan =
      TRY(text != nullptr ? model::read_plan(*text, subject, overrides) : model::load_plan(*path, overrides));
  if (request.clusters.empty() && request.gpus.empty()) return std::vector<NamedPlan>{{short_name(*path), plan}};
  return variants(short_name(*path), plan, request);
}

// A deployment has no step that could be compared with one, and a step of reinforcement learning has many.
Result<void> check_kinds(const std::vector<ComparisonSubject>& subjects) {
  const auto words_of = [](const ComparisonSubject& one) {
    if (one.origin == "plan" && model::is_deployment(one.plan)) return "serves";
    const bool by_rollout = one.result ? one.result->rollout.has_value() : one.plan.rollout.given;
    return by_rollout ? "is trained by reinforcement learning" : "trains";
  };
  const ComparisonSubject& first = subjects.front();
  const auto other = std::ranges::find_if(
      subjects, [&](const ComparisonSubject& one) { return std::string_view(words_of(one)) != words_of(first); });
  if (other == subjects.end()) return {};
  return model::wrong_input(first.name, fmt::format("it {} and {} {}", words_of(first), other->name, words_of(*other)),
                            "compare deployments with deployments, and steps with steps of their kind");
}

// Gives subjects of equal names their whole path, or else their number.
void distinguish(std::vector<ComparisonSubject>& subjects, const std::vector<std::string>& paths) {
  const auto shared = [&](const std::string& name) {
    return std::ranges::count(subjects, name, &ComparisonSubject::name) > 1;
  };
  std::vector<std::string> names;
  for (const ComparisonSubject& subject : subjects) names.push_back(subject.name);
  for (std::size_t i = 0; i < subjects.size(); ++i)
    if (shared(names[i]) && paths.size() == subjects.size()) names[i] = paths[i];
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const bool again = std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
                       names.begin() + static_cast<std::ptrdiff_t>(i);
    subjects[i].name = again ? fmt::format("{} ({})", names[i], i + 1) : names[i];
  }
}

Result<void> check(const SubjectRequest& request) {
  if (request.subjects.empty())
    return model::wrong_input("", "there is nothing to compare", "give plans or results, two at least");
  const bool varied = !request.clusters.empty() || !request.gpus.empty();
  const std::string option = request.clusters.empty() ? "--gpus" : "--cluster";
  if (varied && (request.subjects.size() != 1 || is_result(request.subjects.front(), request)))
    return model::wrong_input(option, "takes exactly one plan",
                              "for example plumbline compare PLAN --cluster h800-rail-fat-tree,h100-dgx");
  if (!varied && request.subjects.size() < 2)
    return model::wrong_input(request.subjects.front(), "there is nothing to compare it with",
                              "give a second plan or result, or --cluster or --gpus");
  for (const std::int64_t count : request.gpus)
    if (count < 1) return model::wrong_input("--gpus", fmt::format("must be at least 1, found {}", count));
  return {};
}

}  // namespace

Result<std::vector<ComparisonSubject>> comparison_subjects(const SubjectRequest& request) {
  TRY(check(request));
  std::vector<std::string> overrides = request.overrides;
  auto changes = TRY(take_constant_changes(overrides));
  Shared shared{.changes = std::move(changes)};
  std::vector<ComparisonSubject> found;
  ProgressBar bar("subjects");
  for (const std::string& subject : request.subjects) {
    bar.update(found.size(), request.subjects.size());
    if (is_result(subject, request)) {
      found.push_back(TRY(read_subject(subject, request)));
      continue;
    }
    auto plans = TRY(read_plans(subject, overrides, request));
    for (NamedPlan& named : plans) {
      auto done = predict(named.plan, request, shared);
      if (!done && done.error().kind == model::ErrorKind::input) return tl::unexpected(done.error());
      found.push_back(predicted_subject(std::move(named), std::move(done), request));
    }
  }
  // What is measured of reinforcement learning is an update, which the others are compared with then.
  if (std::ranges::any_of(found, &ComparisonSubject::measured))
    for (ComparisonSubject& subject : found)
      if (subject.result) subject.result->rollout.reset();
  TRY(check_kinds(found));
  distinguish(found, request.subjects);
  return found;
}

}  // namespace plumbline::cli
