// The buffers of a sequence: parameters, gradients and states once, what passes through several times.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "real/executor/device.h"
#include "real/measure/contents.h"
#include "real/measure/workload.h"

namespace plumbline::real {

// What sets of buffers have apart from each other.
enum class Apart {
  activations,       // all that passes through
  what_all_to_alls,  // only what exchanges read and write, so that they can run beside the operators of another set
};

class SequenceBuffers {
 public:
  // Sequence and device must outlive it. Written before anything is computed: what Contents calls needed.
  SequenceBuffers(const Sequence& sequence, Device& device, std::size_t sets, Apart apart = Apart::activations);

  Buffer* at(std::size_t set, std::size_t block, model::TensorId tensor) const { return sets_[set][block][tensor]; }

  // The operator of a step on the buffers of a set.
  Kernel kernel(std::size_t set, const Sequence::Step& step, std::uint32_t label) const;

  // What a stand-in leaves in a tensor; the same in each set.
  const std::vector<float>& left_in(std::size_t block, model::TensorId tensor);

 private:
  using Table = std::vector<std::vector<Buffer*>>;  // [block][tensor]

  const model::Graph& graph(std::size_t block) const { return sequence_.graphs[sequence_.blocks[block].graph]; }
  Buffer* allocate(std::size_t block, model::TensorId id);
  // Whether the block's end is the beginning of the next one.
  bool passes_on(std::size_t block) const;
  bool takes_back(std::size_t block) const;
  void add_set(std::size_t set);
  // Whether each set has a buffer of its own for the tensor.
  bool is_apart(std::size_t block, model::TensorId id) const;

  const Sequence& sequence_;
  Device& device_;
  Apart apart_;
  std::vector<std::vector<bool>> exchanged_;  // [block][tensor]
  std::vector<Contents> contents_;            // by block
  std::vector<BufferPointer> owned_;
  std::vector<Table> sets_;
  std::vector<float> written_;  // while buffers are filled
  std::map<std::pair<std::size_t, model::TensorId>, std::vector<float>> left_;
};

}  // namespace plumbline::real
