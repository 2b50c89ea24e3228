#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/match/detail/comparing.h"
#include "calibrate/match/trace_comparison.h"
#include "model/base/text.h"
#include "model/result/comparison.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view any_collective = "collective";  // the class of collectives whose names state no kind

// Returns "reduce_gradients" of "plumbline::reduce_scatter::ncclKernel_ReduceScatter:_reduce_gradients", the name
// without the class and the library's prefix.
std::string_view bare_name(const model::Kernel& kernel) {
  constexpr std::string_view scope = "::", prefix = ":_";
  std::string_view name = note_value(kernel.note, "kernel");
  if (const std::size_t at = name.rfind(prefix); at != std::string_view::npos) name.remove_prefix(at + prefix.size());
  if (const std::size_t at = name.rfind(scope); at != std::string_view::npos && name.starts_with("plumbline::"))
    name.remove_prefix(at + scope.size());
  return name;
}

bool same_class(const model::Kernel& a, const model::Kernel& b) {
  return a.row == b.row && a.class_name == b.class_name;
}

using model::Interval;

constexpr const char *alone_variant = "in_step", *overlapped = "in_step_beside";  // variants of a record

// The samples of one operator, by variant.
struct Samples {
  const model::Kernel* kernel = nullptr;
  std::string name;
  bool divided = false;  // it ran as several kernels, which move more bytes than the operator
  std::map<std::string, std::vector<double>> seconds;
};

// What one execution of an expert all-to-all takes: its parts, layout, rendezvous and transfer, follow each other.
struct Exchange {
  std::int32_t transfer = -1;  // index of the predicted span
  double seconds = 0;
};

// Returns when the kernels of a trace ran, merged: those that communicate, or those that compute.
std::vector<Interval> busy(const model::Timeline& measured, bool communicates) {
  std::vector<Interval> found;
  for (const model::Span& span : measured.spans)
    if (span.kernel >= 0 && model::is_communication(measured.kernel_of(span).row) == communicates)
      found.push_back({span.start_ps, span.end_ps()});
  return model::merged(std::move(found));
}

bool overlaps(const std::vector<Interval>& intervals, const model::Span& span) {
  const auto after = std::ranges::lower_bound(intervals, span.start_ps, std::ranges::less_equal(), &Interval::end_ps);
  return after != intervals.end() && after->start_ps < span.end_ps();
}

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

bool is_exchange(const model::Kernel& kernel) {
  return model::is_communication(kernel.row) && kernel.row != "collective";
}

// Returns the samples that count, by size. Kernels that wait for other ranks end with the last of them: of those the
// fastest quarter counts.
std::vector<double> counted(std::vector<double> seconds, bool waits) {
  std::ranges::sort(seconds);
  constexpr std::size_t part = 4;
  if (waits) seconds.resize(std::max<std::size_t>(1, seconds.size() / part));
  return seconds;
}

Measurement record_of(const std::string& key, const Samples& samples, const std::string& variant,
                      const std::string& device) {
  const model::Kernel& kernel = *samples.kernel;
  const auto words = model::split_at(key, '-');
  const std::vector<double> seconds = counted(samples.seconds.at(variant), model::is_communication(kernel.row));
  Measurement m;
  m.source = "a trace of the PyTorch profiler, matched with a plan";
  m.device = device;
  m.op = words[0];
  m.name = samples.name;
  m.phase = words[1];
  m.format = words[2];
  m.case_line = key;
  constexpr std::array<const char*, 4> names = {"m", "n", "k", "groups"};
  for (std::size_t i = 0; i < names.size() && kernel.extents[0] > 0; ++i)
    m.shape.emplace_back(names[i], static_cast<std::int64_t>(std::ceil(kernel.extents[i])));
  m.variant = variant;
  m.communication_sms = 0;
  m.target_sms = 0;
  m.samples = static_cast<std::int64_t>(seconds.size());
  constexpr double low = 0.1, middle = 0.5, high = 0.9;
  m.time.p50 = percentile(seconds, middle);
  m.time.p10 = percentile(seconds, low);
  m.time.p90 = percentile(seconds, high);
  m.time.min = seconds.front();
  if (kernel.flops > 0) m.flops = kernel.flops;
  if (kernel.bytes > 0 && !samples.divided) m.bytes = kernel.bytes;
  return m;
}

// Collects the times of a trace by operator of the plan.
class TraceSamples {
 public:
  TraceSamples(const model::Timeline& measured, const TraceComparison& comparison)
      : measured_(measured), predicted_(comparison.predicted), match_(comparison.match) {}

  void collect() {
    const std::vector<MeasuredPart> parts = measured_parts(match_, predicted_, measured_);
    const std::vector<Interval> transfers = busy(measured_, true);
    std::vector<int> covers(measured_.spans.size(), 0);  // predicted kernels that a measured one stands for
    for (const std::int32_t j : match_.measured_of)
      if (j >= 0) ++covers[static_cast<std::size_t>(j)];
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double seconds = parts[i].seconds;
      if (seconds <= 0) continue;
      const model::Kernel& kernel = kernel_of(i);
      const bool transfer = model::is_communication(kernel.row);
      if (is_exchange(kernel)) {
        add_part(i, seconds);
      } else if (covers[own(i)] > 1) {
        ++fused;
      } else if (kernel.key.empty()) {
        unkeyed += transfer ? 1 : 0;
      } else {
        add(i, !transfer && overlaps(transfers, measured_.spans[own(i)]) ? overlapped : alone_variant, seconds);
        operators[kernel.key].divided |= kernel.gemm.empty() && parts[i].kernels > 1;
      }
    }
    const std::vector<Interval> computes = busy(measured_, false);
    for (const auto& [place, exchange] : exchanges_) {
      const auto i = static_cast<std::size_t>(exchange.transfer);
      if (exchange.transfer < 0 || sms_of(i) == 0)
        ++partial;
      else
        add(i, overlaps(computes, measured_.spans[own(i)]) ? overlapped : alone_variant, exchange.seconds);
    }
  }

  // Returns the SMs that the transfer of an all-to-all held: the CTAs that it was launched with; 0: not known.
  std::int64_t sms_of(std::size_t i) const { return measured_.kernel_of(measured_.spans[own(i)]).grid; }

  std::map<std::string, Samples> operators;         // by key
  std::map<std::string, std::int64_t> sms;          // of all-to-alls, by key
  std::size_t fused = 0, unkeyed = 0, partial = 0;  // kernels of the plan without a record

 private:
  std::size_t own(std::size_t i) const { return static_cast<std::size_t>(match_.measured_of[i]); }
  const model::Kernel& kernel_of(std::size_t i) const { return predicted_.kernel_of(predicted_.spans[i]); }

  void add(std::size_t i, const char* variant, double seconds) {
    const model::Kernel& kernel = kernel_of(i);
    Samples& samples = operators[kernel.key];
    samples.kernel = &kernel;
    samples.name = is_exchange(kernel) ? kernel.section : predicted_.names[predicted_.spans[i].name];
    samples.seconds[variant].push_back(seconds);
    if (is_exchange(kernel)) sms[kernel.key] = sms_of(i);
  }

  void add_part(std::size_t i, double seconds) {
    const model::Span& span = predicted_.spans[i];
    const model::Kernel& kernel = kernel_of(i);
    Exchange& exchange = exchanges_[{kernel.section, span.layer, span.micro_batch}];
    exchange.seconds += seconds;
    if ((kernel.row == "dispatch" || kernel.row == "combine") && !kernel.key.empty())
      exchange.transfer = static_cast<std::int32_t>(i);
  }

  const model::Timeline& measured_;
  const model::Timeline& predicted_;
  const StepMatch& match_;
  std::map<std::tuple<std::string, std::int32_t, std::int32_t>, Exchange> exchanges_;  // by section, layer, micro-batch
};

}  // namespace

OperatorNames::OperatorNames(const model::Timeline& predicted) : timeline_(predicted) {
  for (const model::Span& span : predicted.spans) {
    if (span.kernel < 0) continue;
    const model::Kernel& kernel = predicted.kernel_of(span);
    const auto [entry, fresh] =
        numbers_.try_emplace(as_word(predicted.names[span.name]), static_cast<std::int32_t>(kernels_.size()));
    if (fresh) {
      kernels_.push_back(&kernel);
    } else if (const model::Kernel*& known = kernels_[static_cast<std::size_t>(entry->second)];
               known != nullptr && !same_class(*known, kernel)) {
      known = nullptr;
    }
  }
}

std::int32_t OperatorNames::predicted(std::size_t span) const {
  return numbers_.at(as_word(timeline_.names[timeline_.spans[span].name]));
}

std::int32_t OperatorNames::measured(const model::Kernel& kernel) const {
  const auto found = numbers_.find(bare_name(kernel));
  return found == numbers_.end() ? -1 : found->second;
}

model::Timeline classified_by_name(const model::Timeline& measured, const model::Timeline& predicted) {
  const OperatorNames names(predicted);
  model::Timeline result = measured;
  for (model::Kernel& kernel : result.kernels) {
    if (kernel.row != other_class && kernel.class_name != any_collective) continue;
    const std::int32_t named = names.measured(kernel);
    const model::Kernel* of_plan = named < 0 ? nullptr : names.kernel(named);
    if (of_plan == nullptr) continue;
    kernel.row = of_plan->row;
    kernel.class_name = of_plan->class_name;
  }
  return result;
}

Measurements trace_records(const model::Timeline& measured, const TraceComparison& comparison,
                           const std::string& device, const std::string& path) {
  TraceSamples samples(measured, comparison);
  samples.collect();
  Measurements found;
  found.path = path;
  std::size_t only_overlapped = 0, waiting = 0, divided = 0;
  for (const auto& [key, of_key] : samples.operators) {
    const bool exchange = is_exchange(*of_key.kernel);
    only_overlapped += exchange || of_key.seconds.contains(alone_variant) ? 0 : 1;
    waiting += model::is_communication(of_key.kernel->row) ? 1 : 0;
    divided += of_key.divided ? 1 : 0;
    for (const auto& [variant, seconds] : of_key.seconds) {
      if (!exchange && variant == overlapped && of_key.seconds.contains(alone_variant)) continue;
      Measurement m = record_of(key, of_key, variant, device);
      if (exchange) m.communication_sms = samples.sms.at(key);
      if (!exchange) m.variant = alone_variant;
      found.values.push_back(std::move(m));
    }
  }
  found.notes.push_back(
      fmt::format("{} operators of the plan have kernels of their own in the trace", samples.operators.size()));
  const auto note = [&](std::size_t count, std::string_view what) {
    if (count > 0) found.notes.push_back(fmt::format("{} {}", count, what));
  };
  note(only_overlapped, "of them only while communication ran, whose times hold what it takes from them");
  note(divided,
       "of them run as several kernels each: their times count for themselves, and for no rate, because these kernels "
       "move more bytes than the operator");
  note(waiting,
       "of them wait for other ranks: their fastest quarter counts, for these sizes and groups alone. Latency and rate "
       "of links are not fitted, because one step does not separate them (plumbline measure, or nccl-tests)");
  note(samples.fused, "kernels of the plan run within others in the trace, and give no record");
  note(samples.partial, "all-to-alls give no record: the trace lacks their transfer, or its CTAs");
  note(samples.unkeyed,
       "transfers give no record: several collectives are predicted as one, or messages between stages, whose waits "
       "for the other stage do not end");
  if (auto gap = launch_gap_record(measured, device)) found.values.push_back(std::move(*gap));
  return found;
}

}  // namespace plumbline::calibrate
