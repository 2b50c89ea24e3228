// What the tensors of a graph hold before its operators run alone: random numbers of the size that training has, valid
// indices, and what exchanges would have left.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph/graph.h"

namespace plumbline::real {

class Contents {
 public:
  Contents(const model::Graph& graph, std::uint64_t seed);

  // Whether nothing that is computed writes the tensor, or what it holds counts before it is written.
  bool needed(model::TensorId id) const;
  // All its elements, at its expected shape. Token ids and labels lie within the vocabulary, received indices name an
  // expert of the rank as often as the expected rows say.
  std::vector<float> values(model::TensorId id) const;
  // The same into memory that is used again: for gigabytes, fresh pages cost more than the numbers.
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
