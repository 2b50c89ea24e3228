#include "real/executor/inference/detail/pass_runner.h"

#include <algorithm>

#include "model/cost/operator_class.h"
#include "model/layers/context.h"

namespace plumbline::real {

using model::BlockKind;
using model::Role;
using model::Tensor;

namespace {

constexpr model::Stream pass_stream = model::Stream::compute;

bool is_trained(const Tensor& tensor) {
  return tensor.role == Role::parameter || (tensor.role == Role::constant && tensor.name == "router_bias");
}
bool is_whole_number(const Tensor& tensor) {
  return tensor.type == model::DataType::int32 || tensor.type == model::DataType::int64;
}

const Tensor& of_name(const model::Graph& graph, const std::string& name) {
  return *std::ranges::find(graph.tensors, name, &Tensor::name);
}

// Returns a parameter of a pass from those of training. Passes project both latents with one matrix, and apply the
// up-projection of keys and values to queries and outputs instead, head by head.
model::Result<std::vector<float>> from_training(TrainedParameters& trained, const model::Architecture& architecture,
                                                std::int64_t layer, const std::string& name) {
  if (name.starts_with("q_kv_a")) {
    auto both = TRY(trained.read(layer, name.substr(0, 1) + name.substr(std::string("q_kv").size())));
    const auto key_value = TRY(trained.read(layer, name.substr(std::string("q_").size())));
    both.insert(both.end(), key_value.begin(), key_value.end());
    return both;
  }
  const bool keys = name == "kv_b_key";
  if (!keys && name != "kv_b_value") return trained.read(layer, name);
  const auto all = TRY(trained.read(layer, "kv_b"));
  const auto width = static_cast<std::size_t>(architecture.latent.kv_lora_rank);
  const auto nope = static_cast<std::size_t>(architecture.latent.qk_nope_head_dim);
  const auto of_head = nope + static_cast<std::size_t>(architecture.latent.v_head_dim);
  std::vector<float> part;
  for (std::size_t head = 0; head < all.size() / (of_head * width); ++head) {
    const float* const rows = all.data() + head * of_head * width;
    if (!keys) part.insert(part.end(), rows + nope * width, rows + of_head * width);
    for (std::size_t column = 0; keys && column < width; ++column)
      for (std::size_t row = 0; row < nope; ++row) part.push_back(rows[row * width + column]);
  }
  return part;
}

}  // namespace

PassRunner::PassRunner(InstanceRank& rank, const model::LayerContext& context) : rank_(rank) {
  blocks_.emplace_back(-1, BlockKind::embedding);
  for (std::int64_t layer = 0; layer < rank.architecture->layers; ++layer)
    blocks_.emplace_back(layer, model::layer_kind(*rank.architecture, layer));
  blocks_.emplace_back(-1, BlockKind::head);
  for (const auto& [layer, kind] : blocks_) {
    if (kinds_.contains(kind)) continue;
    Kind& made = kinds_[kind];
    made.graph = model::make_block(kind, context);
    made.whole = model::make_block(kind, context.undivided());
    for (model::TensorId id = 0; id < made.graph.tensors.size(); ++id) {
      const Tensor& tensor = made.graph.tensor(id);
      if (tensor.role == Role::activation) made.activations[id] = rank.device->allocate(tensor);
      if (tensor.role == Role::constant && !is_trained(tensor) && !data_.contains(tensor.name))
        data_[tensor.name] = rank.device->allocate(tensor);
    }
  }
  const model::Graph& first = kinds_.at(BlockKind::embedding).graph;
  for (BufferPointer& stream : streams_) stream = rank.device->allocate(first.tensor(first.output));
}

std::optional<std::pair<model::DataType, std::string>> PassRunner::missing_format() const {
  for (const auto& [kind, made] : kinds_)
    for (const Tensor& tensor : made.graph.tensors)
      if (!is_whole_number(tensor) && !rank_.device->executes(tensor.type))
        return std::pair{tensor.type, tensor.role == Role::cache ? "inference.kv_cache" : "inference.weights"};
  return std::nullopt;
}

model::Result<void> PassRunner::hold(TrainedParameters& trained) {
  for (const auto& [layer, kind] : blocks_)
    for (const Tensor& tensor : kinds_.at(kind).graph.tensors) {
      const bool fresh = !tensor.shared && !rank_.held.contains({layer, tensor.name});
      if (!fresh) continue;
      if (is_trained(tensor)) TRY(hold_parameter(layer, kinds_.at(kind), tensor, trained));
      if (tensor.role != Role::cache) continue;
      rank_.held[{layer, tensor.name}] = rank_.device->allocate(tensor);
    }
  return {};
}

model::Result<void> PassRunner::hold_parameter(std::int64_t layer, const Kind& kind, const Tensor& tensor,
                                               TrainedParameters& trained) {
  const auto values = TRY(from_training(trained, *rank_.architecture, layer, tensor.name));
  const Tensor& whole = of_name(kind.whole, tensor.name);
  BufferPointer& buffer = rank_.held[{layer, tensor.name}];
  buffer = rank_.device->allocate(tensor);
  rank_.device->write(
      *buffer, part_of(*rank_.architecture, whole, tensor, division_of(rank_.degrees, rank_.place.index), values));
  return {};
}

Buffer* PassRunner::bind(std::int64_t layer, Kind& kind, model::TensorId id, Buffer* input, Buffer* output) {
  const Tensor& tensor = kind.graph.tensor(id);
  if (is_trained(tensor) || tensor.role == Role::cache)
    return rank_.held.at({tensor.shared ? -1 : layer, tensor.name}).get();
  if (tensor.role == Role::constant) return data_.at(tensor.name).get();
  if (tensor.role == Role::input) return input;
  return id == kind.graph.output ? output : kind.activations.at(id).get();
}

void PassRunner::launch(const Kernel& kernel) {
  if (!is_collective(kernel.op->kind) && !is_all_to_all(kernel.op->kind))
    return rank_.device->launch(pass_stream, kernel);
  model::RankGroup group = model::expert_group(rank_.degrees);
  if (is_collective(kernel.op->kind)) {
    const auto& attributes = std::get<model::CollectiveAttributes>(kernel.op->attributes);
    group = {attributes.ranks, attributes.stride};
  }
  rank_.communicator->launch(pass_stream, strided_group(rank_.place, {0}, group.ranks, group.stride), kernel);
}

void PassRunner::run_block(std::int64_t layer, Kind& kind, Buffer* input, Buffer* output, const StepNumbers& numbers) {
  for (const model::Operator& op : kind.graph.operators) {
    Kernel kernel;
    kernel.graph = &kind.graph;
    kernel.op = &op;
    for (const model::TensorId id : op.reads) kernel.reads.push_back(bind(layer, kind, id, input, output));
    for (const model::TensorId id : op.writes) kernel.writes.push_back(bind(layer, kind, id, input, output));
    kernel.tensor_rank = rank_.place.tensor;
    kernel.numbers = numbers;
    launch(kernel);
  }
}

model::Result<std::vector<float>> PassRunner::run(const std::vector<float>& token_ids, std::int64_t cached,
                                                  const StepNumbers& numbers) {
  rank_.device->write(*data_.at("token_ids"), token_ids);
  if (const auto lengths = data_.find("cached_lengths"); lengths != data_.end())
    rank_.device->write(*lengths->second,
                        std::vector(static_cast<std::size_t>(rank_.requests), static_cast<float>(cached)));
  Kind& head = kinds_.at(BlockKind::head);
  Buffer* const ids = head.activations.at(head.graph.output).get();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto& [layer, kind] = blocks_[i];
    Buffer* const output = kind == BlockKind::head ? ids : streams_[i % 2].get();
    run_block(layer, kinds_.at(kind), streams_[(i + 1) % 2].get(), output, numbers);
  }
  TRY(rank_.device->synchronize());
  rank_.device->take_records();
  return rank_.device->read(*ids);
}

}  // namespace plumbline::real
