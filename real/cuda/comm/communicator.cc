#include "real/cuda/comm/communicator.h"

#include <utility>

#include "model/cost/operator_class.h"
#include "real/cuda/comm/local_all_to_all.h"
#include "real/cuda/comm/stand_ins.h"

namespace plumbline::real::cuda {
namespace {

// Groups of one rank communicate with themselves only: copies and local all-to-alls.
class CudaCommunicator final : public Communicator {
 public:
  CudaCommunicator(CudaDevice& device, ControlChannel& channel, const CommunicatorOptions& options,
                   std::unique_ptr<OtherRanks> others)
      : device_(device),
        channel_(channel),
        others_(std::move(others)),
        alone_(device.machine(), {options.communication_sms, 1, 0}) {}

  std::int32_t rank() const override { return channel_.rank(); }
  std::int32_t ranks() const override { return channel_.ranks(); }
  std::string transports() const override { return others_ == nullptr ? "" : others_->transports(); }

  void send_receive(model::Stream stream, std::span<const Message> messages, bool rendezvous,
                    std::uint32_t label) override {
    run(stream, "messages", label, [&](cudaStream_t on) -> Status {
      if (others_ == nullptr) return {"there is no other rank to send to"};
      return others_->send_receive(messages, rendezvous, on);
    });
  }
  void launch(model::Stream stream, const Group& group, const Kernel& kernel) override {
    run(stream, kernel.op->name, kernel.label, [&](cudaStream_t on) -> Status {
      if (group.size() > 1) return others_->launch(group, kernel, on);
      return is_all_to_all(kernel.op->kind) ? alone_.run(group, kernel, on) : copy_whole(kernel, on);
    });
  }

  model::Result<std::vector<double>> sum(std::vector<double> values) override { return channel_.sum(values); }
  model::Result<std::vector<std::string>> gather(const std::string& text) override { return channel_.gather(text); }
  void abort(const std::string& reason) override { channel_.abort(reason); }

 private:
  // A failure is sent to the other ranks, which would otherwise wait.
  template <class Launch>
  void run(model::Stream stream, const std::string& name, std::uint32_t label, Launch launch) {
    device_.enqueue(stream, label, [&](cudaStream_t on) -> Status {
      Status status = launch(on);
      if (status.ok()) return status;
      status.failure = name + ": " + status.failure;
      channel_.abort(status.failure);
      return status;
    });
  }
  CudaDevice& device_;
  ControlChannel& channel_;
  std::unique_ptr<OtherRanks> others_;  // nullptr: one rank
  LocalAllToAll alone_;
};

}  // namespace

model::Result<std::unique_ptr<Communicator>> make_communicator(CudaDevice& device, ControlChannel& channel,
                                                               const CommunicatorOptions& options) {
  std::unique_ptr<OtherRanks> others;
  if (channel.ranks() > 1) {
    Machine& machine = device.machine();
    const OwnDevice own{machine.scratch, static_cast<int>(machine.properties.sharedMemPerBlockOptin), machine.folders};
    others = TRY(connect_ranks(own, channel, options));
  }
  return std::make_unique<CudaCommunicator>(device, channel, options, std::move(others));
}

}  // namespace plumbline::real::cuda
