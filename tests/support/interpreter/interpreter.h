// Executes an operator graph from the graph alone, in double precision and with exact number formats, for all ranks of
// an expert-parallel group in lock-step. This proves that a graph is complete (every operand named, every shape true),
// and its gradients can be compared with finite differences.
#pragma once

#include <Eigen/Core>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/graph/graph.h"

namespace plumbline::tests {

// A tensor [a, b, c] is held as a*b rows of c columns, [n] as one column. Integers are exact doubles.
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::Index;

Matrix zeros(const model::Tensor& tensor);

// The state of one rank.
struct RankState {
  std::vector<std::optional<Matrix>> values;  // by TensorId
  std::map<model::Extent, Index> extents;     // received and rows, set when routing has decided them
};

// One operator on one rank. Reading a tensor that was never written throws.
class Call {
 public:
  Call(const model::Graph& graph, const model::Operator& op, RankState& state, double& multiply_adds)
      : graph_(graph), op_(op), state_(state), multiply_adds_(multiply_adds) {}

  std::size_t ins() const { return op_.reads.size(); }
  std::size_t outs() const { return op_.writes.size(); }
  const Matrix& in(std::size_t i) const;
  Matrix& out(std::size_t i) { return *state_.values[op_.writes[i]]; }
  const model::Tensor& in_tensor(std::size_t i) const { return graph_.tensor(op_.reads[i]); }
  const model::Tensor& out_tensor(std::size_t i) const { return graph_.tensor(op_.writes[i]); }
  template <class Attributes>
  const Attributes& attributes() const {
    return std::get<Attributes>(op_.attributes);
  }
  // Returns a * b and counts its multiply-adds.
  template <class A, class B>
  Matrix gemm(const A& a, const B& b) {
    multiply_adds_ += static_cast<double>(a.rows() * a.cols() * b.cols());
    return a * b;
  }

 private:
  const model::Graph& graph_;
  const model::Operator& op_;
  RankState& state_;
  double& multiply_adds_;
};

// The same operator on every rank.
using Calls = std::span<Call>;

class Interpreter {
 public:
  // Gradients of parameters and caches start at zero; the caller sets inputs, parameters and constants.
  Interpreter(const model::Graph& graph, std::size_t ranks);

  void set(std::size_t rank, model::TensorId id, Matrix value) { ranks_[rank].values[id] = std::move(value); }
  const Matrix& value(std::size_t rank, model::TensorId id) const { return *ranks_[rank].values[id]; }

  // Throws std::logic_error with the name of an operator that cannot run or whose result has another shape than the
  // graph gives.
  void run(model::Phase phase);
  // Runs one operator of the graph, for callers that have set its operands.
  void run(const model::Operator& op);

  // Returns the multiply-adds of the GEMMs executed so far on all ranks, by phase and name of the operator.
  const std::map<std::string, double>& multiply_adds() const { return multiply_adds_; }

 private:
  void check_shape(const model::Tensor& tensor, RankState& state, const Matrix& value) const;

  const model::Graph& graph_;
  std::vector<RankState> ranks_;
  std::map<std::string, double> multiply_adds_;
};

}  // namespace plumbline::tests
