#include "tests/support/real/tiny_training.h"

#include <variant>

#include "model/base/random.h"
#include "model/graph/offload.h"
#include "tests/support/interpreter/indexer.h"

namespace plumbline::tests {
namespace {

using model::Role;

// Returns whether a tensor has one number per token: ids and labels, which are divided like the batch and equal in
// every block.
bool is_data(const model::Tensor& tensor) { return tensor.shape[0].extent == model::Extent::tokens; }

bool is_divided(const model::Tensor& tensor) { return tensor.expert || is_data(tensor); }

// Positions without a label are marked by -1, which no operator may read.
Matrix random_tokens(const model::Tensor& tensor, Index count, std::int64_t vocabulary, model::Random& random) {
  Matrix tokens(count, 1);
  for (Index t = 0; t < count; ++t) {
    const bool ignored = tensor.name == "mtp_labels" && (t + 1) % tiny_sequence_length == 0;
    tokens(t) = ignored ? -1 : static_cast<double>(random.next() % static_cast<std::uint64_t>(vocabulary));
  }
  return tokens;
}

// Returns weights around 0; the scales of norms are around 1, and the routing bias is small compared with the scores.
Matrix random_weights(const model::Tensor& tensor, Index copies, model::Random& random) {
  Matrix value = zeros(tensor).replicate(copies, 1);
  const bool is_scale = tensor.role == Role::parameter && tensor.shape.size() == 1;
  const double spread = tensor.role == Role::constant ? 0.05 : 0.4;
  for (double& entry : value.reshaped<Eigen::RowMajor>()) entry = (is_scale ? 1 : 0) + spread * random.normal();
  return value;
}

}  // namespace

TinyTraining::TinyTraining(const TinyModel& model, const TinyLayout& layout)
    : ranks_(static_cast<std::size_t>(layout.ranks)) {
  for (model::BlockKind kind : model.blocks) {
    graphs_.push_back(make_block(kind, tiny_context(model, layout)));
    if (layout.offloaded) model::offload(graphs_.back(), 1);
  }
  for (std::size_t block = 0; block < graphs_.size(); ++block)
    for (const model::Tensor& tensor : graphs_[block].tensors)
      if (tensor.role == Role::parameter && !tensor.shared) owners_[tensor.name] = key(block, tensor);

  model::Random random(1);
  for (std::size_t block = 0; block < graphs_.size(); ++block)
    for (const model::Tensor& tensor : graphs_[block].tensors) {
      const Index copies = is_divided(tensor) ? layout.ranks : 1;
      if (tensor.role == Role::parameter && !tensor.shared)
        parameters_[key(block, tensor)] = random_weights(tensor, copies, random);
      if (tensor.role == Role::constant && !constants_.contains(key(block, tensor)))
        constants_[key(block, tensor)] = is_data(tensor) ? random_tokens(tensor, copies * tensor.shape[0].size,
                                                                         model.architecture.vocabulary, random)
                                                         : random_weights(tensor, copies, random);
    }
}

std::string TinyTraining::key(std::size_t block, const model::Tensor& tensor) const {
  // A name with "d_" is that of a parameter's gradient.
  const std::string name = tensor.role == Role::gradient ? tensor.name.substr(2) : tensor.name;
  if (tensor.shared) return owners_.at(name);
  if (tensor.role == Role::constant && is_data(tensor)) return name;
  return std::to_string(block) + " " + graphs_[block].name + "/" + name;
}

Matrix TinyTraining::part_of(std::size_t rank, const model::Tensor& tensor, const Matrix& whole) const {
  if (!is_divided(tensor)) return whole;
  const Index rows = whole.rows() / static_cast<Index>(ranks_);
  return whole.middleRows(static_cast<Index>(rank) * rows, rows);
}

void TinyTraining::add_part(std::size_t rank, const model::Tensor& tensor, const Matrix& part, Matrix& whole) const {
  const Index at = is_divided(tensor) ? static_cast<Index>(rank) * part.rows() : 0;
  whole.middleRows(at, part.rows()) += part;
}

std::vector<Interpreter> TinyTraining::forward() const {
  std::vector<Interpreter> blocks;
  for (std::size_t block = 0; block < graphs_.size(); ++block) {
    const model::Graph& graph = graphs_[block];
    Interpreter& current = blocks.emplace_back(graph, ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      for (model::TensorId id = 0; id < graph.tensors.size(); ++id) {
        const model::Tensor& tensor = graph.tensor(id);
        if (tensor.role == Role::parameter)
          current.set(rank, id, part_of(rank, tensor, parameters_.at(key(block, tensor))));
        if (tensor.role == Role::constant)
          current.set(rank, id, part_of(rank, tensor, constants_.at(key(block, tensor))));
      }
      if (block > 0) current.set(rank, graph.input, blocks[block - 1].value(rank, graphs_[block - 1].output));
    }
    current.run(model::Phase::F);
  }
  return blocks;
}

double TinyTraining::loss_of(const std::vector<Interpreter>& blocks) const {
  double total = 0;
  for (std::size_t block = 0; block < graphs_.size(); ++block)
    for (const model::Operator& op : graphs_[block].operators) {
      if (op.kind != model::OperatorKind::cross_entropy || op.recomputed) continue;
      for (std::size_t rank = 0; rank < ranks_; ++rank) total += blocks[block].value(rank, op.writes[0])(0);
    }
  return total;
}

void TinyTraining::backward(std::vector<Interpreter>& blocks) const {
  for (std::size_t block = graphs_.size(); block-- > 0;) {
    for (std::size_t rank = 0; rank < ranks_ && block + 1 < graphs_.size(); ++rank)
      blocks[block].set(rank, graphs_[block].output_gradient,
                        blocks[block + 1].value(rank, graphs_[block + 1].input_gradient));
    blocks[block].run(model::Phase::I);
    blocks[block].run(model::Phase::W);
  }
}

double TinyTraining::loss() const { return loss_of(forward()); }

double TinyTraining::index_loss() const {
  double total = 0;
  std::vector<Interpreter> blocks = forward();
  for (std::size_t block = 0; block < graphs_.size(); ++block)
    for (const model::Operator& op : graphs_[block].operators) {
      if (op.name == "index_target") blocks[block].run(op);
      if (op.kind != model::OperatorKind::index_scores_grad) continue;
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        std::vector<Matrix> operands;
        for (const model::TensorId id : op.reads) operands.push_back(blocks[block].value(rank, id));
        total += index_divergence(std::get<model::AttentionAttributes>(op.attributes), operands);
      }
    }
  return total;
}

TinyTraining::Step TinyTraining::step() const {
  std::vector<Interpreter> blocks = forward();
  backward(blocks);
  Step step;
  step.loss = loss_of(blocks);
  for (const auto& [name, parameter] : parameters_)
    step.gradients[name] = Matrix::Zero(parameter.rows(), parameter.cols());
  for (std::size_t block = 0; block < graphs_.size(); ++block) {
    const model::Graph& graph = graphs_[block];
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      for (model::TensorId id = 0; id < graph.tensors.size(); ++id)
        if (const model::Tensor& tensor = graph.tensor(id); tensor.role == Role::gradient)
          add_part(rank, tensor, blocks[block].value(rank, id), step.gradients.at(key(block, tensor)));
    for (const auto& [name, count] : blocks[block].multiply_adds())
      step.multiply_adds[std::to_string(block) + " " + graph.name + "/" + name] = count;
  }
  return step;
}

}  // namespace plumbline::tests
