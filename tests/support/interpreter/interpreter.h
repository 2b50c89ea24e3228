// Executes an operator graph from what the graph states alone, in double precision and with exact
// number formats, for all ranks of an expert-parallel group in lock-step. It proves that a graph is
// complete (every operand named, every shape true) and lets its gradients meet finite differences.
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

// What one rank holds.
struct RankState {
  std::vector<std::optional<Matrix>> values;  // by TensorId
  std::map<model::Extent, Index> extents;     // received and rows, known once routing has decided them
};

// One operator as one rank sees it. Reading a tensor that nobody wrote throws.
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
  // a * b, counted.
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
  // Gradients of parameters start at zero; the caller sets inputs, parameters and constants.
  Interpreter(const model::Graph& graph, std::size_t ranks);

  void set(std::size_t rank, model::TensorId id, Matrix value) { ranks_[rank].values[id] = std::move(value); }
  const Matrix& value(std::size_t rank, model::TensorId id) const { return *ranks_[rank].values[id]; }

  // Throws std::logic_error naming the operator that cannot be run or whose result has another shape
  // than the graph states.
  void run(model::Phase phase);
  // One operator of the graph, for callers that set its operands before.
  void run(const model::Operator& op);

  // Multiply-adds of the matrix products executed so far on all ranks, by phase and name of the operator.
  const std::map<std::string, double>& multiply_adds() const { return multiply_adds_; }

 private:
  void check_shape(const model::Tensor& tensor, RankState& state, const Matrix& value) const;

  const model::Graph& graph_;
  std::vector<RankState> ranks_;
  std::map<std::string, double> multiply_adds_;
};

}  // namespace plumbline::tests
