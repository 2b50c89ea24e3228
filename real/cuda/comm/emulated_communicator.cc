// One rank of a plan for many, on one GPU: the work of its peers is emulated, and there are no waits for them.
#include <string>

#include "model/cost/operator_class.h"
#include "real/cuda/comm/communicator.h"
#include "real/cuda/comm/local_all_to_all.h"
#include "real/cuda/comm/stand_ins.h"

namespace plumbline::real::cuda {
namespace {

constexpr int usual_collective_ctas = 16;  // NCCL's for a ring between nodes of eight GPUs

class EmulatedCommunicator final : public Communicator {
 public:
  EmulatedCommunicator(CudaDevice& device, const EmulationOptions& options)
      : device_(device),
        options_(options),
        all_to_all_(device.machine(), {options.communication_sms, options.ranks_per_node, options.nic_gbps}),
        blocks_{options.collective_ctas > 0 ? options.collective_ctas : usual_collective_ctas,
                static_cast<int>(device.machine().properties.sharedMemPerBlockOptin)} {}

  std::int32_t rank() const override { return options_.rank; }
  std::int32_t ranks() const override { return options_.ranks; }

  void send_receive(model::Stream stream, std::span<const Message> messages, bool /*rendezvous*/,
                    std::uint32_t label) override {
    device_.enqueue(stream, label, [&](cudaStream_t on) -> Status {
      for (const Message& message : messages)
        if (!message.send) PLUMBLINE_TRY(receive_buffers_.receive(static_cast<CudaBuffer&>(*message.buffer), on));
      return {};
    });
  }

  void launch(model::Stream stream, const Group& group, const Kernel& kernel) override {
    device_.enqueue(stream, kernel.label, [&](cudaStream_t on) -> Status {
      Status status = is_all_to_all(kernel.op->kind) ? all_to_all_.run(group, kernel, on)
                      : group.size() == 1            ? copy_whole(kernel, on)
                                                     : stand_in(group, kernel, blocks_, on);
      if (!status.ok()) status.failure = kernel.op->name + ": " + status.failure;
      return status;
    });
  }

  // Emulated ranks contribute nothing.
  model::Result<std::vector<double>> sum(std::vector<double> values) override { return values; }
  model::Result<std::vector<std::string>> gather(const std::string& text) override {
    std::vector<std::string> texts(static_cast<std::size_t>(options_.ranks));
    texts[static_cast<std::size_t>(options_.rank)] = text;
    return texts;
  }
  void abort(const std::string& /*reason*/) override {}

 private:
  CudaDevice& device_;
  EmulationOptions options_;
  LocalAllToAll all_to_all_;
  Blocks blocks_;
  ReceiveBuffers receive_buffers_;
};

}  // namespace

std::unique_ptr<Communicator> make_emulated_communicator(CudaDevice& device, const EmulationOptions& options) {
  return std::make_unique<EmulatedCommunicator>(device, options);
}

}  // namespace plumbline::real::cuda
