#include "reports/trace/trace.h"

#include "model/plan/plan.h"
#include "reports/text/compare/trace_comparison.h"

namespace plumbline::reports {

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
