// A measured step, or deployment, held against its prediction: which step a measured value means, where that lies in
// the interval, and what may have brought it there. docs/intervals.md explains it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"

namespace plumbline::sim {

struct Inputs;

// tflops, mfu: per GPU, of FLOPs that were counted by a convention that the value does not state.
enum class MeasuredQuantity : std::uint8_t { seconds, tokens_per_s, tokens_per_s_per_gpu, samples_per_s, tflops, mfu };

struct MeasuredValue {
  std::string given;  // "7800tok/s/GPU"
  MeasuredQuantity quantity = MeasuredQuantity::seconds;
  double value = 0;  // in the unit of its quantity; mfu as a fraction
};

struct Measurement {
  MeasuredValue step;
  std::optional<double> peak_bytes;                         // of the fullest GPU
  model::MemoryCount counted = model::MemoryCount::device;  // by it, as by nvidia-smi
  std::optional<model::MeasuredLog> log = {};               // that it was read from
};

// Reads a step ("2.1s", "1.2Mtok/s", "7800tok/s/GPU", "230TFLOP/s", "41%") and a peak of memory ("71GB"). Input errors
// name the option and the nearest unit.
model::Result<Measurement> parse_measurement(std::string_view step, std::optional<std::string_view> memory = {});
model::Result<double> parse_measured_peak(std::string_view memory);  // bytes

// What a convention may count on top of the model's FLOPs, and peaks that it may take instead of that of BF16.
struct RateCounts {
  struct Peak {
    std::string name;
    double over_bf16 = 1;
  };
  double recomputed = 0, recomputed_causal = 0;  // FLOPs of recomputation over those of the model
  std::vector<Peak> peaks;                       // of the formats of the plan's GEMMs
};

// Returns the conventions by which a rate may have been stated, with the step that it means by each: that closest to
// `expected_s` first, equal ones in the order of this result's own figures.
std::vector<model::RateConvention> rate_conventions(const model::StepTimes& step, const MeasuredValue& rate,
                                                    const RateCounts& counts, double expected_s);

// Returns where a step of that time lies.
model::MeasuredVerdict measured_verdict(double time_s, const model::Quantiles& predicted,
                                        std::optional<double> bound_s);

// Holds a measurement against the result of the inputs. Input errors: a result without an interval, a peak beyond the
// device's memory.
model::Result<model::MeasuredStep> measured_step(const Inputs& inputs, const model::StepResult& result,
                                                 const Measurement& measurement);

// A measured deployment; its `time_s` is the time per output token that was measured, or that a measured rate of output
// tokens (of all GPUs, or of one) means at the requests in flight of the prediction.
struct MeasuredDeployment {
  model::MeasuredStep measured;
  model::Quantiles predicted;  // TPOT, or the one that the predicted rates mean
};

// Reads the measured figure of a deployment ("35ms", "9000tok/s", "560tok/s/GPU"). Input errors: those of
// parse_measurement(), and what is neither a time nor a rate of tokens.
model::Result<MeasuredValue> parse_measured_deployment(std::string_view figure);

// Holds such a figure against a deployment. Input errors: one without an interval.
model::Result<MeasuredDeployment> measured_deployment(const model::ServingResult& result, const MeasuredValue& value);

}  // namespace plumbline::sim
