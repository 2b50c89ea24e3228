// Times the gap between two kernels of a stream: the queue, the clock, the record.
#include <atomic>
#include <thread>

#include "real/host/measure/runner.h"
#include "real/measure/statistics.h"

namespace plumbline::real::host {
namespace {

constexpr std::uint32_t gate_label = 0;
constexpr std::uint32_t kernels = 64;  // per round; the median of their gaps is one sample

class LaunchRunner final : public Runner {
 public:
  explicit LaunchRunner(HostDevice& device) : device_(device) {
    const std::vector<model::Dimension> one = {{1}, {1}};
    graph_.tensors = {{.name = "a", .shape = one, .type = model::DataType::fp32},
                      {.name = "b", .shape = one, .type = model::DataType::fp32},
                      {.name = "sum", .shape = one, .type = model::DataType::fp32}};
    graph_.operators = {{.kind = model::OperatorKind::add, .name = "add", .reads = {0, 1}, .writes = {2}}};
    for (const model::Tensor& tensor : graph_.tensors) buffers_.push_back(device.allocate(tensor));
  }

  // Launches all kernels before the first may run, so that none waits for its launch.
  model::Result<std::vector<Sample>> round(std::size_t) override {
    std::atomic<bool> open = false;
    const auto wait = [&open](StreamClock&) {
      while (!open) std::this_thread::yield();
    };
    if (device_.concurrent()) device_.enqueue(model::Stream::compute, {wait, [](StreamClock&) {}, gate_label});
    for (std::uint32_t i = 1; i <= kernels; ++i)
      device_.launch(model::Stream::compute, {.graph = &graph_,
                                              .op = &graph_.operators[0],
                                              .reads = {buffers_[0].get(), buffers_[1].get()},
                                              .writes = {buffers_[2].get()},
                                              .label = i});
    open = true;
    TRY(device_.synchronize());
    const std::vector<KernelRecord> records = device_.take_records();  // in the order in which they ran
    std::vector<double> gaps;
    for (std::size_t i = 2; i < records.size(); ++i) gaps.push_back(records[i].start - records[i - 1].end);
    return std::vector<Sample>{{0, spread_of(gaps).p50, 0}};
  }

 private:
  HostDevice& device_;
  model::Graph graph_;
  std::vector<BufferPointer> buffers_;
};

}  // namespace

std::unique_ptr<Runner> make_launch_runner(HostDevice& device) { return std::make_unique<LaunchRunner>(device); }

}  // namespace plumbline::real::host
