// A tiny model trained for one step by the interpreter: its blocks form a chain, in which the output of each is the
// input of the next, over one batch divided among the ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/interpreter/interpreter.h"
#include "tests/support/tiny_models.h"

namespace plumbline::tests {

class TinyTraining {
 public:
  // Draws random parameters, token ids and labels; they are the same for every layout of the same model.
  TinyTraining(const TinyModel& model, const TinyLayout& layout);

  // Returns the parameters by "block/tensor". Experts are whole here and are divided over the ranks when they run. A
  // parameter that blocks share has the name of the block that owns it.
  std::map<std::string, Matrix>& parameters() { return parameters_; }
  // Returns token ids and labels of the whole batch by name, and routing biases by "block/tensor".
  const std::map<std::string, Matrix>& constants() const { return constants_; }

  // Returns the sum over the ranks of all losses of the model (each a mean over the rank's labelled tokens).
  double loss() const;
  // Returns the sum over ranks of the divergences that indexers learn, which no other parameter does.
  double index_loss() const;

  struct Step {
    double loss = 0;
    std::map<std::string, Matrix> gradients;      // summed over ranks and sharing blocks
    std::map<std::string, double> multiply_adds;  // by "block/phase operator"
  };
  Step step() const;

  const std::vector<model::Graph>& graphs() const { return graphs_; }

 private:
  std::string key(std::size_t block, const model::Tensor& tensor) const;
  Matrix part_of(std::size_t rank, const model::Tensor& tensor, const Matrix& whole) const;
  void add_part(std::size_t rank, const model::Tensor& tensor, const Matrix& part, Matrix& whole) const;
  std::vector<Interpreter> forward() const;
  double loss_of(const std::vector<Interpreter>& blocks) const;
  void backward(std::vector<Interpreter>& blocks) const;

  std::size_t ranks_;
  std::vector<model::Graph> graphs_;
  std::map<std::string, std::string> owners_;  // maps the name of a parameter or constant that blocks share to its key
  std::map<std::string, Matrix> parameters_;
  std::map<std::string, Matrix> constants_;
};

}  // namespace plumbline::tests
