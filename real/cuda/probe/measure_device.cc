// Rates of the device itself: copies within it and to the host.
#include <cstring>
#include <memory>
#include <utility>

#include "real/cuda/kernels/fill.h"
#include "real/cuda/kernels/measuring.h"
#include "real/cuda/probe/comparison.h"
#include "real/cuda/probe/measure.h"
#include "real/cuda/probe/timing.h"
#include "real/cuda/probe/transfer.h"

namespace plumbline::real::cuda {

namespace {

constexpr std::uint64_t seed = 41, seed_words = 42;

// Sampled words of a copy equal those of its source.
Status check_copy(const float* from, const float* to, std::int64_t bytes, CheckOutcome& result) {
  Comparison comparison;
  for (const std::int64_t word : sampled_indices(bytes / 4, 64, seed_words)) {
    float source = 0, target = 0;
    PLUMBLINE_TRY(outcome(cudaMemcpy(&source, from + word, 4, cudaMemcpyDefault), "reading a word"));
    PLUMBLINE_TRY(outcome(cudaMemcpy(&target, to + word, 4, cudaMemcpyDefault), "reading a word"));
    comparison.add(target, source);
  }
  result = comparison.outcome(0);
  return passed(result);
}

}  // namespace

Status measure_copy(const Case& what, const MeasureOptions& options, Toolbox& tools,
                    std::vector<Measurement>& results) {
  DeviceMemory from, to;
  PLUMBLINE_TRY(from.allocate(what.bytes));
  PLUMBLINE_TRY(to.allocate(what.bytes));
  const auto bytes = static_cast<std::size_t>(what.bytes);
  PLUMBLINE_TRY(outcome(fill_float(from.as<float>(), what.bytes / 4, seed, 1.0f, tools.stream), "filling"));
  const Enqueue ways[] = {
      [&](cudaStream_t on) { return outcome(copy(from.as<void>(), to.as<void>(), what.bytes, on), "copying"); },
      [&](cudaStream_t on) {
        return outcome(cudaMemcpyAsync(to.as<void>(), from.as<void>(), bytes, cudaMemcpyDeviceToDevice, on), "copying");
      }};
  std::vector<Measurement> measured = blank_measurements(what);
  for (std::size_t way = 0; way < measured.size(); ++way) {
    PLUMBLINE_TRY(outcome(cudaMemsetAsync(to.as<void>(), 0xff, bytes, tools.stream), "poisoning"));
    PLUMBLINE_TRY(ways[way](tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "copying"));
    CheckOutcome check;
    PLUMBLINE_TRY(check_copy(from.as<float>(), to.as<float>(), what.bytes, check));
    measured[way].check = check;
  }
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t way = 0; way < measured.size(); ++way) {
      const int count = (options.samples + rounds - 1) / rounds;
      PLUMBLINE_TRY(sample_cold(ways[way], count, tools, measured[way].samples_us));
    }
  }
  for (Measurement& each : measured) {
    read_clock(tools, tools.stream, each.clock);
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "counting cycles"));
    finish_clock(tools, each.clock);
    each.note = "clocks read right after the samples";
    results.push_back(std::move(each));
  }
  return {};
}

Status measure_host_to_device(const Case& what, const MeasureOptions& options, Toolbox& tools,
                              std::vector<Measurement>& results) {
  DeviceMemory device;
  PinnedMemory host;
  PLUMBLINE_TRY(device.allocate(what.bytes));
  PLUMBLINE_TRY(host.allocate(what.bytes));
  const auto bytes = static_cast<std::size_t>(what.bytes);
  for (std::int64_t i = 0; i < what.bytes / 4; ++i) {
    host.as<float>()[i] = random_normal(seed, static_cast<std::uint64_t>(i));
  }
  const auto send = [&](bool to_device) -> Enqueue {
    return [&, to_device](cudaStream_t on) {
      void* target = to_device ? device.as<void>() : host.as<void>();
      const void* source = to_device ? host.as<void>() : device.as<void>();
      return outcome(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, on), "copying");
    };
  };
  PLUMBLINE_TRY(outcome(cudaMemsetAsync(device.as<void>(), 0xff, bytes, tools.stream), "poisoning"));
  PLUMBLINE_TRY(send(true)(tools.stream));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "copying"));
  CheckOutcome check;
  PLUMBLINE_TRY(check_copy(host.as<float>(), device.as<float>(), what.bytes, check));
  std::vector<Measurement> measured = blank_measurements(what);
  for (std::size_t way = 0; way < measured.size(); ++way) {
    PLUMBLINE_TRY(sample_hot(send(way == 0), options.samples, tools.stream, measured[way].samples_us));
    if (way == 0) measured[way].check = check;
    results.push_back(std::move(measured[way]));
  }
  return {};
}

}  // namespace plumbline::real::cuda
