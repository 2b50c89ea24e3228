#include <fmt/format.h>

#include <vector>

#include "model/plan/plan.h"
#include "reports/text/compare/comparison.h"
#include "reports/trace/trace.h"

namespace plumbline::reports {
namespace {

model::Error without_timeline(const model::ComparisonSubject& subject) {
  if (!subject.result) return subject.result.error();
  if (subject.origin == "plan")
    return {model::ErrorKind::input, "the closed form has no timeline", "", 0, "--trace", "--fidelity step"};
  return {model::ErrorKind::input,
          fmt::format("the result '{}' has no timeline", subject.name),
          "",
          0,
          "--trace",
          "give its plan instead, which is simulated anew; results of `run --json` have one"};
}

std::string label_of(const model::ResultComparison& comparison, const model::ComparisonSubject& subject) {
  const bool pair = comparison.subjects.size() == 2 && !comparison.measured.empty();
  if (!pair) return subject.name + ":";
  return subject.measured() ? "measured" : "predicted";
}

}  // namespace

std::vector<TraceSubject> recorded_subjects(const model::ResultComparison& comparison) {
  std::vector<TraceSubject> subjects;
  for (const model::ComparisonSubject& subject : comparison.subjects)
    if (!subject.timeline.spans.empty())
      subjects.push_back({label_of(comparison, subject), &subject.timeline, subject.rank_names,
                          subject.result->fidelity, model::to_toml(subject.plan)});
  return subjects;
}

model::Result<std::vector<TraceSubject>> trace_subjects(const model::ResultComparison& comparison) {
  for (const model::ComparisonSubject& subject : comparison.subjects)
    if (subject.timeline.spans.empty()) return tl::unexpected(without_timeline(subject));
  return recorded_subjects(comparison);
}

bool write_trace_comparison(const TraceComparisonOutput& output, const TraceOptions& options, const Sink& sink) {
  const calibrate::TraceComparison& c = output.comparison;
  model::Timeline predicted = c.predicted, measured = output.measured;
  measured.ranks = predicted.ranks;
  for (std::size_t i = 0; i < measured.spans.size(); ++i) {
    model::Span& span = measured.spans[i];
    span.rank = c.rank;
    if (c.match.predicted_of[i] < 0) continue;
    const model::Span& place = c.predicted.spans[static_cast<std::size_t>(c.match.predicted_of[i])];
    span.layer = place.layer;
    span.micro_batch = place.micro_batch;
  }
  std::erase_if(predicted.spans, [&](const model::Span& span) { return span.rank != c.rank; });
  return write_trace(
      {{"predicted", &predicted, {}, "", model::to_toml(output.plan)}, {"measured", &measured, {}, "", ""}}, options,
      sink);
}

}  // namespace plumbline::reports
