// A kernel alone and beside a copy kernel that owns some of the SMs, in turns.
#include <algorithm>
#include <memory>
#include <utility>

#include "real/cuda/probe/green_context.h"
#include "real/cuda/probe/measure.h"
#include "real/cuda/probe/occupation.h"
#include "real/cuda/probe/operation.h"
#include "real/cuda/probe/timing.h"

namespace plumbline::real::cuda {

namespace {

constexpr int rounds = 3;

// Where the kernel and the copy run: on streams of one context, the copy claiming its SMs, or in green contexts.
struct Streams {
  cudaStream_t kernel = nullptr, copy = nullptr;
  std::unique_ptr<GreenContexts> green;
  std::string note;

  Status open(const Case& what, const Toolbox& tools) {
    kernel = tools.stream;
    copy = tools.beside;
    if (what.by != "green") return {};
    int device = 0;
    PLUMBLINE_TRY(outcome(cudaGetDevice(&device), "asking for the device"));
    PLUMBLINE_TRY(GreenContexts::open(device, static_cast<int>(what.ctas), green));
    kernel = green->large();
    copy = green->small();
    note = "; green contexts of " + std::to_string(green->small_sms()) + " and " + std::to_string(green->large_sms()) +
           " SMs" + (green->coscheduled() ? "" : ", not coscheduled");
    return {};
  }
};

// The copy must span all samples: it starts before them, and is stopped after them before its deadline.
Status sample_beside(const Sampled& sampled, int count, OccupiedSms& occupied, const Streams& streams, Toolbox& tools,
                     Measurement& into, OccupationReport& report) {
  // Beside the copy a run may take several times as long; the graph of a short one repeats it for 200 us.
  const double per_run = std::max(sampled.estimate_us(), 500.0) * 1e-6;
  PLUMBLINE_TRY(occupied.start(1 + 20 * count * per_run));
  const Status sampling =
      sampled.hot(count, streams.kernel, into.samples_us, [&] { read_clock(tools, streams.kernel, into.clock); });
  const Status stopped = occupied.stop(report);
  PLUMBLINE_TRY(sampling);
  PLUMBLINE_TRY(stopped);
  finish_clock(tools, into.clock);
  if (report.ended_early) return {"the copy kernel reached its deadline before the samples ended"};
  if (!report.own_sms) return {"two blocks of the copy kernel shared an SM: it does not own its SMs on this device"};
  return {};
}

Status sample_alone(const Sampled& sampled, int count, const Streams& streams, Toolbox& tools, Measurement& into) {
  PLUMBLINE_TRY(
      sampled.hot(count, streams.kernel, into.samples_us, [&] { read_clock(tools, streams.kernel, into.clock); }));
  finish_clock(tools, into.clock);
  return {};
}

Status sample_rounds(const Case& what, const MeasureOptions& options, const Sampled& sampled, const Streams& streams,
                     Toolbox& tools, std::vector<Measurement>& measured) {
  const int per_round = (options.samples + rounds - 1) / rounds;
  if (what.ctas == 0) return sample_alone(sampled, options.samples, streams, tools, measured[0]);
  OccupiedSms occupied(tools, streams.copy);
  PLUMBLINE_TRY(occupied.prepare(what));
  Measurement& beside = measured[1];
  beside.running_ctas = what.ctas;
  for (int round = 0; round < rounds; ++round) {
    PLUMBLINE_TRY(sample_alone(sampled, per_round, streams, tools, measured[0]));
    OccupationReport report;
    PLUMBLINE_TRY(sample_beside(sampled, per_round, occupied, streams, tools, beside, report));
    beside.copy_gbps += report.payload_gbps / rounds;
  }
  return {};
}

}  // namespace

Status measure_partition(const Case& what, const MeasureOptions& options, Toolbox& tools,
                         std::vector<Measurement>& results) {
  const int sms = tools.properties.multiProcessorCount;
  if (what.ctas >= sms || what.target_sms > sms) {
    return {"the device has " + std::to_string(sms) + " SMs, too few for this partition"};
  }
  const std::unique_ptr<Operation> operation = make_operation(what);
  if (!operation) return {"the probe has no operation '" + what.kernel + "'"};
  Streams streams;
  PLUMBLINE_TRY(streams.open(what, tools));
  PLUMBLINE_TRY(operation->prepare(tools));
  CheckOutcome check;
  PLUMBLINE_TRY(operation->check(tools, check));
  PLUMBLINE_TRY(passed(check));
  Sampled sampled;
  PLUMBLINE_TRY(sampled.prepare([&](cudaStream_t on) { return operation->run(on); }, streams.kernel));
  std::vector<Measurement> measured = blank_measurements(what);
  PLUMBLINE_TRY(sample_rounds(what, options, sampled, streams, tools, measured));
  for (Measurement& each : measured) {
    each.check = check;
    each.algorithm = operation->algorithm();
    each.note = "timed with " + sampled.method() + streams.note;
    results.push_back(std::move(each));
  }
  return {};
}

}  // namespace plumbline::real::cuda
