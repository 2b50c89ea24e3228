// Rates of the device: copies within it and to the host.
#include <array>

#include "real/cuda/kernels/fill.h"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/timing.h"
#include "real/cuda/measure/transfer.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::uint64_t seed_source = 41, seed_words = 42;

// Checks that sampled words of a copy equal those of its source.
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

// Copies from device memory to device memory, by plumbline's kernel and by the driver.
class CopyRunner final : public CaseRunner {
 public:
  using CaseRunner::CaseRunner;

  Status prepare() override {
    PLUMBLINE_TRY(from_.allocate(what_.bytes));
    PLUMBLINE_TRY(to_.allocate(what_.bytes));
    PLUMBLINE_TRY(outcome(fill_float(from_.as<float>(), what_.bytes / 4, seed_source, 1.0f, tools_.stream), "filling"));
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const auto bytes = static_cast<std::size_t>(what_.bytes);
      PLUMBLINE_TRY(outcome(cudaMemsetAsync(to_.as<void>(), 0xff, bytes, tools_.stream), "poisoning"));
      PLUMBLINE_TRY(copies_[i](tools_.stream));
      PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "copying"));
      CheckOutcome check;
      PLUMBLINE_TRY(check_copy(from_.as<float>(), to_.as<float>(), what_.bytes, check));
      findings_[i].check = check;
      findings_[i].note = "clocks read right after the samples";
    }
    return {};
  }

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      PLUMBLINE_TRY(sample_cold(copies_[i], samples_, tools_, times[i]));
      read_clock(tools_.stream, i);
      PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "counting cycles"));
      finish_clock(i);
    }
    return {};
  }

 private:
  DeviceMemory from_, to_;
  const std::array<Enqueue, 2> copies_ = {
      [this](cudaStream_t on) { return outcome(copy(from_.as<void>(), to_.as<void>(), what_.bytes, on), "copying"); },
      [this](cudaStream_t on) {
        const auto bytes = static_cast<std::size_t>(what_.bytes);
        return outcome(cudaMemcpyAsync(to_.as<void>(), from_.as<void>(), bytes, cudaMemcpyDeviceToDevice, on),
                       "copying");
      }};
};

// Copies from pinned memory to the device and back.
class HostCopyRunner final : public CaseRunner {
 public:
  using CaseRunner::CaseRunner;

  Status prepare() override {
    PLUMBLINE_TRY(device_.allocate(what_.bytes));
    PLUMBLINE_TRY(host_.allocate(what_.bytes));
    for (std::int64_t i = 0; i < what_.bytes / 4; ++i)
      host_.as<float>()[i] = random_normal(seed_source, static_cast<std::uint64_t>(i));
    const auto bytes = static_cast<std::size_t>(what_.bytes);
    PLUMBLINE_TRY(outcome(cudaMemsetAsync(device_.as<void>(), 0xff, bytes, tools_.stream), "poisoning"));
    PLUMBLINE_TRY(send(true, tools_.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools_.stream), "copying"));
    return check_copy(host_.as<float>(), device_.as<float>(), what_.bytes, findings_[0].check.emplace());
  }

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    for (const std::size_t direction : {0, 1})
      PLUMBLINE_TRY(sample_hot([&](cudaStream_t on) { return send(direction == 0, on); }, samples_, tools_.stream,
                               times[direction]));
    return {};
  }

 private:
  Status send(bool to_device, cudaStream_t on) const {
    void* target = to_device ? device_.as<void>() : host_.as<void>();
    const void* source = to_device ? host_.as<void>() : device_.as<void>();
    return outcome(cudaMemcpyAsync(target, source, static_cast<std::size_t>(what_.bytes), cudaMemcpyDefault, on),
                   "copying");
  }

  DeviceMemory device_;
  PinnedMemory host_;
};

}  // namespace

std::unique_ptr<CaseRunner> make_copy_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<CopyRunner>(what, tools, samples);
}

std::unique_ptr<CaseRunner> make_host_copy_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<HostCopyRunner>(what, tools, samples);
}

}  // namespace plumbline::real::cuda
