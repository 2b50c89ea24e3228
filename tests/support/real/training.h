// A minimal training: memory and steps that suffice to test what runs between the steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/base/random.h"
#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/executor/training/training_step.h"
#include "tests/support/real/host_ranks.h"

namespace plumbline::tests {

struct PlainBuffer final : real::Buffer {
  std::vector<float> values;
};

// A device that has memory and no kernels.
class PlainDevice final : public real::Device {
 public:
  real::BufferPointer allocate(const model::Tensor&) override { return std::make_unique<PlainBuffer>(); }
  real::BufferPointer view(real::Buffer&, std::int64_t, const model::Tensor&) override { std::abort(); }
  void write(real::Buffer& buffer, std::span<const float> values) override {
    static_cast<PlainBuffer&>(buffer).values.assign(values.begin(), values.end());
  }
  std::vector<float> read(const real::Buffer& buffer) override {
    return static_cast<const PlainBuffer&>(buffer).values;
  }
  void clear(model::Stream, real::Buffer&, std::uint32_t) override { std::abort(); }
  bool concurrent() const override { return false; }
  void launch(model::Stream, const real::Kernel&) override { std::abort(); }
  real::Event record(model::Stream) override { return 0; }
  void wait(model::Stream, real::Event) override {}
  model::Result<void> synchronize() override { return {}; }
  double now() override { return 0; }
  std::vector<real::KernelRecord> take_records() override { return {}; }
};

// Calls body on a thread per rank and returns the results, in order.
template <class Value>
std::vector<Value> on_ranks(std::int32_t ranks, const std::function<Value(real::Communicator&)>& body) {
  std::vector<Value> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, {.threads = false}, [&](real::host::HostDevice&, real::Communicator& communicator) {
    results[static_cast<std::size_t>(communicator.rank())] = body(communicator);
  });
  return results;
}

struct TinyStepOptions {
  std::int64_t vocabulary = 16;
  std::int64_t global_batch_size = 4;
  std::int64_t micro_batch_size = 1;
  std::int64_t experts = 4;
  double overflow_above = 1e300;           // the factor of the gradients above which they overflow
  std::int64_t loss_is_no_number_in = -1;  // number of the call of run(), from 1; -1 for none
  std::int64_t norm_is_infinite_in = -1;
  std::int64_t fails_in = -1;
};

// Learns the frequency of each token after each other, by gradient descent with momentum. The ranks are data-parallel.
// Its router prefers the low experts, and only the bias balances them.
class TinyStep final : public real::TrainingStep {
 public:
  TinyStep(real::Communicator& communicator, TinyStepOptions options) : communicator_(communicator), options_(options) {
    const auto size = static_cast<std::size_t>(options.vocabulary * options.vocabulary);
    weights_.values.assign(size, 0);
    momentum_.values.assign(size, 0);
    bias_.values.assign(static_cast<std::size_t>(options.experts), 0);
  }

  std::vector<real::MicroBatchPlace> places() const override {
    std::vector<real::MicroBatchPlace> places;
    const std::int64_t own = options_.global_batch_size / communicator_.ranks();
    for (std::int64_t first = 0; first < own; first += options_.micro_batch_size)
      places.push_back({.micro_batch = static_cast<std::int32_t>(places.size()),
                        .first_sequence = communicator_.rank() * own + first});
    return places;
  }

  model::Result<real::StepOutcome> run(const std::vector<real::MicroBatch>& batches,
                                       const real::StepNumbers& numbers) override {
    ++calls_;
    numbers_.push_back(numbers);
    if (calls_ == options_.fails_in) return tl::unexpected(model::Error{.message = "the step cannot be run"});
    real::StepOutcome outcome{.loss_weight = static_cast<double>(batches.size()), .seconds = 0.5};
    std::vector<double> gradient(weights_.values.size());
    real::ExpertLoad load{.layer = 1, .rows = std::vector<double>(bias_.values.size())};
    for (const real::MicroBatch& batch : batches) add(batch, numbers.loss_scale, outcome.loss, gradient, load);
    outcome.loss /= outcome.loss_weight;
    outcome.loads = {load};
    const auto sums = communicator_.sum(std::move(gradient));
    if (!sums) return tl::unexpected(sums.error());
    const double parts = static_cast<double>(options_.global_batch_size / options_.micro_batch_size);
    outcome.finite = numbers.loss_scale * parts <= options_.overflow_above;
    if (outcome.finite) outcome.gradient_norm = update(*sums, numbers.loss_scale * parts);
    if (calls_ == options_.loss_is_no_number_in) outcome.loss = std::nan("");
    if (calls_ == options_.norm_is_infinite_in) outcome.gradient_norm = HUGE_VAL;
    outcome.timeline.end_ps = numbers.step;
    return outcome;
  }

  std::vector<real::StatePiece> state() override {
    return {{"weights", &weights_}, {"momentum", &momentum_}, {"bias", &bias_}};
  }
  real::Device& device() override { return device_; }
  std::vector<float> router_bias(std::int64_t) override { return bias_.values; }
  void set_router_bias(std::int64_t, const std::vector<float>& bias) override { bias_.values = bias; }

  const std::vector<real::StepNumbers>& numbers() const { return numbers_; }  // of each call
  const std::vector<float>& weights() const { return weights_.values; }

 private:
  // Adds the loss and the scaled gradient of the mean over the micro-batch's tokens.
  void add(const real::MicroBatch& batch, double scale, double& loss, std::vector<double>& gradient,
           real::ExpertLoad& load) const {
    const auto tokens = static_cast<double>(batch.labels.size());
    const auto v = static_cast<std::size_t>(options_.vocabulary);
    for (std::size_t t = 0; t < batch.labels.size(); ++t) {
      const std::size_t row = static_cast<std::size_t>(batch.token_ids[t]) * v;
      const auto label = static_cast<std::size_t>(batch.labels[t]);
      double sum = 0;
      for (std::size_t i = 0; i < v; ++i) sum += std::exp(static_cast<double>(weights_.values[row + i]));
      for (std::size_t i = 0; i < v; ++i) {
        const double p = std::exp(static_cast<double>(weights_.values[row + i])) / sum;
        gradient[row + i] += scale * (p - (i == label ? 1 : 0)) / tokens;
        if (i == label) loss -= std::log(p) / tokens;
      }
      load.rows[expert_of(label + t)] += 1;
    }
  }

  std::size_t expert_of(std::size_t number) const {
    std::size_t best = 0;
    double best_score = -HUGE_VAL;
    for (std::size_t e = 0; e < bias_.values.size(); ++e) {
      model::Random taste(number * bias_.values.size() + e);
      const double score = taste.uniform() - 0.3 * static_cast<double>(e) + static_cast<double>(bias_.values[e]);
      if (score > best_score) best = e, best_score = score;
    }
    return best;
  }

  double update(const std::vector<double>& gradient, double scale) {
    double squares = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double mean = gradient[i] / scale;
      squares += mean * mean;
      momentum_.values[i] = 0.5F * momentum_.values[i] + static_cast<float>(mean);
      weights_.values[i] -= 4.0F * momentum_.values[i];
    }
    return std::sqrt(squares);
  }

  real::Communicator& communicator_;
  TinyStepOptions options_;
  PlainDevice device_;
  PlainBuffer weights_, momentum_, bias_;
  std::int64_t calls_ = 0;
  std::vector<real::StepNumbers> numbers_;
};

}  // namespace plumbline::tests
