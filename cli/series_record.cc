#include "cli/series_record.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "real/measure/statistics.h"

namespace plumbline::cli {
namespace {

// Where there are few all samples are kept, so that a later look is not bound to the quantiles.
constexpr std::size_t most_kept = 64;

std::optional<double> positive(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

}  // namespace

calibrate::Subject subject_record(const real::Subject& subject) {
  calibrate::Subject record;
  record.op = subject.op;
  record.name = subject.name;
  record.phase = subject.phase;
  record.format = subject.format;
  record.case_line = subject.key;
  record.shape = subject.shape;
  return record;
}

calibrate::Measurement series_record(const real::Series& series) {
  const real::Subject& subject = series.subject;
  calibrate::Measurement m;
  static_cast<calibrate::Subject&>(m) = subject_record(subject);
  m.samples = static_cast<std::int64_t>(series.seconds.size());
  const real::Spread spread = real::spread_of(series.seconds);
  m.time = {spread.p50, spread.p10, spread.p90, spread.min, spread.mad, {}};
  if (series.seconds.size() <= most_kept) m.time.samples = series.seconds;
  m.flops = positive(subject.flops);
  m.bytes = positive(subject.bytes);
  return m;
}

}  // namespace plumbline::cli
