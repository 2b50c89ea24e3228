#include "real/cuda/probe/measure.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "real/cuda/kernels/measuring.h"
#include "real/cuda/probe/measure_collective.h"
#include "real/cuda/probe/operation.h"
#include "real/cuda/probe/timing.h"

namespace plumbline::real::cuda {

namespace {

constexpr int rounds = 5;
constexpr std::int64_t cycle_count_ns = 50000;  // the device's clock may tick every microsecond only

// Runs back to back for `seconds`, waiting now and then so that the queue stays short.
Status soak(const Sampled& sampled, double seconds, cudaStream_t stream) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<double> discarded;
  while (std::chrono::steady_clock::now() < end) {
    PLUMBLINE_TRY(sampled.hot(20, stream, discarded));
    discarded.clear();
  }
  return {};
}

// Hot samples in one go, right after the soak: a pause would let the chip cool.
Status sample_sustained(const Case& what, const MeasureOptions& options, const Sampled& sampled, Toolbox& tools,
                        Measurement& into) {
  PLUMBLINE_TRY(soak(sampled, static_cast<double>(what.soak), tools.stream));
  PLUMBLINE_TRY(sampled.hot(options.samples, tools.stream, into.samples_us,
                            [&] { read_clock(tools, tools.stream, into.clock); }));
  finish_clock(tools, into.clock);
  return {};
}

// Hot and cold in turns.
Status sample_burst(const MeasureOptions& options, const Sampled& sampled, Toolbox& tools, Measurement& hot,
                    Measurement& cold) {
  const int per_round = (options.samples + rounds - 1) / rounds;
  for (int round = 0; round < rounds; ++round) {
    std::function<void()> meanwhile;
    if (round == rounds / 2) meanwhile = [&] { read_clock(tools, tools.stream, hot.clock); };
    PLUMBLINE_TRY(sampled.hot(per_round, tools.stream, hot.samples_us, meanwhile));
    if (meanwhile) finish_clock(tools, hot.clock);
    PLUMBLINE_TRY(sample_cold(sampled.work(), per_round, tools, cold.samples_us));
  }
  cold.clock = hot.clock;
  return {};
}

}  // namespace

std::vector<Measurement> blank_measurements(const Case& what) {
  std::vector<Measurement> blank;
  for (const VariantKey& variant : variants_of(what)) {
    Measurement measurement;
    measurement.what = what;
    measurement.variant = variant;
    measurement.work = work_of(what);
    blank.push_back(std::move(measurement));
  }
  return blank;
}

void read_clock(const Toolbox& tools, cudaStream_t stream, ClockReading& into) {
  auto* cycles = tools.cycles.as<std::int64_t>();
  cycles[0] = cycles[1] = 0;
  if (count_cycles(cycle_count_ns, cycles, stream) != cudaSuccess) cudaGetLastError();
  if (!tools.nvml) return;
  const std::optional<std::string> before = into.throttle;
  into = tools.nvml->read();
  if (before && *before != "none" && into.throttle && *into.throttle != *before) {
    into.throttle = *into.throttle == "none" ? *before : *before + "|" + *into.throttle;
  }
}

void finish_clock(const Toolbox& tools, ClockReading& into) {
  const auto* cycles = tools.cycles.as<volatile std::int64_t>();
  if (cycles[1] <= 0) return;
  into.sm_mhz = static_cast<int>(std::lround(1e3 * static_cast<double>(cycles[0]) / static_cast<double>(cycles[1])));
}

Status passed(const CheckOutcome& outcome) {
  if (outcome.ok) return {};
  char text[128];
  std::snprintf(text, sizeof text, "wrong numbers: relative error %.3g, tolerance %.3g", outcome.relative_error,
                outcome.tolerance);
  return {outcome.note.empty() ? std::string(text) : std::string(text) + "; " + outcome.note};
}

Status measure_kernel(const Case& what, const MeasureOptions& options, Toolbox& tools,
                      std::vector<Measurement>& results) {
  const std::unique_ptr<Operation> operation = make_operation(what);
  if (!operation) return {"the probe has no operation '" + what.op + "'"};
  PLUMBLINE_TRY(operation->prepare(tools));
  CheckOutcome check;
  PLUMBLINE_TRY(operation->check(tools, check));
  PLUMBLINE_TRY(passed(check));
  Sampled sampled;
  PLUMBLINE_TRY(sampled.prepare([&](cudaStream_t on) { return operation->run(on); }, tools.stream));
  std::vector<Measurement> measured = blank_measurements(what);
  PLUMBLINE_TRY(what.soak > 0 ? sample_sustained(what, options, sampled, tools, measured[0])
                              : sample_burst(options, sampled, tools, measured[0], measured[1]));
  for (Measurement& each : measured) {
    each.check = check;
    each.algorithm = operation->algorithm();
    each.note = "timed with " + (each.variant.cache == "cold" ? std::string("events") : sampled.method());
    results.push_back(std::move(each));
  }
  return {};
}

Status measure(const Case& what, const MeasureOptions& options, Toolbox& tools, Collectives& collectives,
               std::vector<Measurement>& results) {
  if (is_collective(what)) return collectives.measure(what, options, tools, results);
  if (what.op == "partition") return measure_partition(what, options, tools, results);
  if (what.op == "copy") return measure_copy(what, options, tools, results);
  if (what.op == "host_to_device") return measure_host_to_device(what, options, tools, results);
  if (what.op == "launch") return measure_launch(what, options, tools, results);
  if (what.op == "graph") return measure_graph(what, options, tools, results);
  return measure_kernel(what, options, tools, results);
}

}  // namespace plumbline::real::cuda
