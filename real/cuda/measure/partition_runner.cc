// A kernel alone and overlapped with a copy kernel that reserves some of the SMs, in turns.
#include <algorithm>
#include <optional>

#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/detail/green_context.h"
#include "real/cuda/measure/detail/reserved_sms.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/timing.h"

namespace plumbline::real::cuda {
namespace {

class PartitionRunner final : public OperationRunner {
 public:
  using OperationRunner::OperationRunner;

  Status prepare() override {
    const int sms = tools_.properties.multiProcessorCount;
    if (what_.ctas >= sms || what_.target_sms > sms)
      return {"the device has " + std::to_string(sms) + " SMs, too few for this partition"};
    PLUMBLINE_TRY(open_streams());
    PLUMBLINE_TRY(prepare_operation(kernel_stream_, ""));
    for (Findings& each : findings_) each.note = "timed with " + sampled_.method() + division_;
    if (what_.ctas == 0) return {};
    reserved_.emplace(tools_, copy_stream_);
    return reserved_->prepare(what_);
  }

 protected:
  Status take(std::size_t /*round*/, Times& times) override {
    PLUMBLINE_TRY(sample(0, times[0]));
    finish_clock(0);
    return what_.ctas == 0 ? Status{} : time_overlapped(times[1]);
  }

 private:
  // Opens streams of one context, where the copy reserves its SMs, or of two green contexts.
  Status open_streams() {
    kernel_stream_ = tools_.stream;
    copy_stream_ = tools_.copy_stream;
    if (what_.by != "green") return {};
    int device = 0;
    PLUMBLINE_TRY(outcome(cudaGetDevice(&device), "asking for the device"));
    PLUMBLINE_TRY(GreenContexts::open(device, static_cast<int>(what_.ctas), green_));
    kernel_stream_ = green_->large();
    copy_stream_ = green_->small();
    division_ = "; green contexts of " + std::to_string(green_->small_sms()) + " and " +
                std::to_string(green_->large_sms()) + " SMs" + (green_->coscheduled() ? "" : ", not coscheduled");
    return {};
  }

  Status sample(std::size_t subject, std::vector<double>& times) {
    return sampled_.hot(samples_, kernel_stream_, times, [&] { read_clock(kernel_stream_, subject); });
  }

  // The copy must span all samples: it starts before them, and is stopped after them and before its deadline.
  Status time_overlapped(std::vector<double>& times) {
    // Overlapped with the copy, a run may take several times as long; the graph of a short run repeats it for 200 us.
    const double per_run = std::max(sampled_.estimate_us(), 500.0) * 1e-6;
    PLUMBLINE_TRY(reserved_->start(1 + 20 * samples_ * per_run));
    const Status sampling = sample(1, times);
    ReservationReport report;
    const Status stopped = reserved_->stop(report);
    PLUMBLINE_TRY(sampling);
    PLUMBLINE_TRY(stopped);
    finish_clock(1);
    if (report.ended_early) return {"the copy kernel reached its deadline before the samples ended"};
    if (!report.own_sms) return {"two blocks of the copy kernel shared an SM: it cannot reserve SMs on this device"};
    copy_rate_ = report.payload_gbps * 1e9;
    return {};
  }

  std::unique_ptr<GreenContexts> green_;
  cudaStream_t kernel_stream_ = nullptr, copy_stream_ = nullptr;
  std::string division_;
  std::optional<ReservedSms> reserved_;
};

}  // namespace

std::unique_ptr<CaseRunner> make_partition_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<PartitionRunner>(what, tools, samples);
}

}  // namespace plumbline::real::cuda
