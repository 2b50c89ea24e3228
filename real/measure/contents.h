// The contents of a graph's tensors before its operators run alone: random numbers of the magnitude that training has,
// valid indices, and what dispatch and combine would have written.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph/graph.h"

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

}  // namespace plumbline::real
