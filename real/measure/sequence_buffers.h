// The contents of a graph's tensors before its operators run alone: random numbers of the magnitude that training has,
// valid indices, and what dispatch and combine would have written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "model/graph/graph.h"
#include "real/executor/device.h"
#include "real/measure/workload.h"

namespace plumbline::real {

class Contents {
 public:
  Contents(const model::Graph& graph, std::uint64_t seed);

  // Returns whether the tensor must be filled: no computed operator writes it, or its old values are read first.
  bool needed(model::TensorId id) const;
  // Returns all elements of the tensor at its expected shape. Token ids and labels lie within the vocabulary; received
  // indices name each expert of the rank as often as its expected rows require.
  std::vector<float> values(model::TensorId id) const;
  // Does the same in memory that is reused: for gigabytes, fresh pages cost more than the numbers.
  void values(model::TensorId id, std::vector<float>& into) const;

 private:
  std::vector<float> token_ids(std::size_t count) const;
  std::vector<float> received_indices(const model::Tensor& tensor) const;
  void numbers(const model::Tensor& tensor, model::TensorId id, std::vector<float>& into) const;

  const model::Graph& graph_;
  std::uint64_t seed_;
  std::vector<bool> computed_, positive_;  // by tensor
  std::vector<bool> from_standin_;
  std::int64_t vocabulary_ = 1;
  const model::Operator* permute_ = nullptr;
};

// The buffers of a sequence: parameters, gradients and states exist once, activations in several sets.

// Which buffers each set has for itself; sets share all others.
enum class Apart {
  activations,
  all_to_all,  // only what the all-to-all reads and writes, so that it can overlap the operators of another set
};

class SequenceBuffers {
 public:
  // Fills the tensors that Contents::needed() names. Sequence and device must outlive it.
  SequenceBuffers(const Sequence& sequence, Device& device, std::size_t sets, Apart apart = Apart::activations);

  Buffer* at(std::size_t set, std::size_t block, model::TensorId tensor) const { return sets_[set][block][tensor]; }

  // Returns the operator of a step on the buffers of a set.
  Kernel kernel(std::size_t set, const Sequence::Step& step, std::uint32_t label) const;

  // Returns the values that a stand-in leaves in a tensor; the same in each set.
  const std::vector<float>& left_in(std::size_t block, model::TensorId tensor);

 private:
  using Table = std::vector<std::vector<Buffer*>>;  // [block][tensor]

  const model::Graph& graph(std::size_t block) const { return sequence_.graphs[sequence_.blocks[block].graph]; }
  Buffer* allocate(std::size_t block, model::TensorId id);
  // Returns whether the block's output is the input of the next block.
  bool passes_on(std::size_t block) const;
  bool takes_back(std::size_t block) const;
  void add_set(std::size_t set);
  // Returns whether each set has its own buffer for the tensor.
  bool is_apart(std::size_t block, model::TensorId id) const;

  const Sequence& sequence_;
  Device& device_;
  Apart apart_;
  std::vector<std::vector<bool>> transferred_;  // [block][tensor]: a dispatch or combine reads or writes it
  std::vector<Contents> contents_;              // by block
  std::vector<BufferPointer> owned_;
  std::vector<Table> sets_;
  std::vector<float> written_;  // while buffers are filled
  std::map<std::pair<std::size_t, model::TensorId>, std::vector<float>> left_;
};

}  // namespace plumbline::real
