// Launches the slots of a rank's program: every segment on its stream, after what it waits for, every operator on its
// buffers, and the messages between slots.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "real/executor/step/rank_state.h"

namespace plumbline::real {

class SlotLauncher {
 public:
  // Functions that are called before and after each segment of a slot (segment -1: the whole slot) is launched on
  // `stream`. They launch the concurrent reductions of gradients and gathers of parameters.
  struct ConcurrentWork {
    std::function<void(std::int32_t slot, std::int32_t segment, model::Stream stream)> before;
    std::function<void(std::int32_t slot, std::int32_t segment)> after;
  };

  explicit SlotLauncher(RankState& rank);

  // Launches the messages that precede op `slot`, then its kernels. After the last slot, one more call with the number
  // of slots launches the remaining sends.
  void launch(std::int32_t slot, const ConcurrentWork& concurrent);

  // Returns the rows routed to each expert, summed by the routers of every MoE block. [(stage, position)]
  const std::map<std::pair<std::int32_t, std::uint16_t>, BufferPointer>& loads() const { return loads_; }
  // Returns the buffer of a micro-batch's input data: token_ids, labels or mtp_labels.
  Buffer* data(std::int32_t stage, std::uint16_t position, model::TensorId id, std::int64_t key);

 private:
  struct Step {  // how a segment of a slot template is launched
    std::int32_t part = 0, parts = 1;
    bool records = false;  // another stream waits for its end
  };
  std::uint16_t template_of(std::int32_t slot) const;
  const model::Segment& segment_of(std::int32_t slot, std::int32_t index) const;
  const std::vector<Step>& steps(std::uint16_t index);
  struct LastUse {  // the end of a temporary activation: no later operator of the slot uses it
    bool forward = false;
    std::uint32_t index = 0;                   // of the stage's activations
    std::optional<model::Stream> only_stream;  // of all its kernels
  };
  using LastUses = std::vector<std::vector<LastUse>>;  // [operator of the slot in launch order]
  const LastUses& last_uses(std::uint16_t index, const model::ScheduleOp& op);
  void send_and_receive(std::int32_t slot);
  Buffer* message_buffer(const model::Transfer& transfer);
  void launch_segment(std::int32_t slot, std::int32_t index, const Step& step, const ConcurrentWork& concurrent);
  void launch_operator(std::int32_t slot, std::int32_t index, const Step& step, const model::Operator& op);
  void end_temporaries(std::int32_t slot);
  Buffer* bind(std::int32_t stage, const model::Segment& segment, model::TensorId id, std::int64_t key);
  void start_streams(const model::SlotTemplate& slot);
  void join_streams();
  void hand_over(std::int32_t slot);
  void copy(Buffer* from, Buffer* to, std::int32_t slot);
  void end_phases(const model::ScheduleOp& op);

  RankState& rank_;
  std::map<std::uint16_t, std::vector<Step>> steps_;
  std::map<std::tuple<std::uint16_t, std::int32_t, std::int32_t>, LastUses> last_uses_;  // [(template, its two stages)]
  std::map<std::pair<std::int32_t, std::uint16_t>, BufferPointer> loads_;
  std::map<std::tuple<std::int32_t, std::uint16_t, model::TensorId, std::int64_t>, BufferPointer> data_;
  std::vector<std::optional<Event>> ended_;  // of the running slot's segments
  std::size_t launched_ = 0;                 // operators of the running slot
  std::vector<model::Stream> used_;          // streams of the running slot other than compute
  std::optional<Event> previous_;            // end of the previous slot, on the compute stream
};

}  // namespace plumbline::real
