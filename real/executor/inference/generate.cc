#include "real/executor/inference/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "model/architecture/architecture.h"
#include "model/base/bytes.h"
#include "model/cost/operator_class.h"
#include "model/layers/blocks.h"
#include "model/layers/context.h"
#include "model/plan/instance.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "real/executor/agreement.h"
#include "real/executor/infeasible.h"
#include "real/executor/step/rank_state.h"
#include "real/executor/step/trained_parameters.h"
#include "real/executor/training/text.h"

namespace plumbline::real {

using model::BlockKind;
using model::Plan;
using model::Result;
using model::Role;
using model::Tensor;

namespace {

// A rank of an instance, its share of the requests, and the parameters, keys and values that passes share.
struct InstanceRank {
  const model::Architecture* architecture = nullptr;
  Device* device = nullptr;
  Communicator* communicator = nullptr;
  model::Parallelism degrees;  // experts are divided over all ranks of the instance
  RankPlace place;
  std::int64_t requests = 0, first_request = 0;  // of this rank; the first one's number among those of all
  std::map<std::pair<std::int64_t, std::string>, BufferPointer> held;  // by layer, -1: embedding and head
};

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

// Runs passes of inference on a rank of an instance, layer by layer.
class PassRunner {
 public:
  // Builds the blocks of the passes. The rank must outlive it.
  PassRunner(InstanceRank& rank, const model::LayerContext& context) : rank_(rank) {
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

  // Takes the parameters that the rank does not hold yet from a checkpoint, and allocates the caches.
  model::Result<void> hold(TrainedParameters& trained) {
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

  // Returns the first format of its tensors that the device does not compute with, and the key that sets it.
  std::optional<std::pair<model::DataType, std::string>> missing_format() const {
    for (const auto& [kind, made] : kinds_)
      for (const Tensor& tensor : made.graph.tensors)
        if (!is_whole_number(tensor) && !rank_.device->executes(tensor.type))
          return std::pair{tensor.type, tensor.role == Role::cache ? "inference.kv_cache" : "inference.weights"};
    return std::nullopt;
  }

  // Runs a pass over tokens of all requests, the same number of each, after `cached` tokens of each. Returns the token
  // that follows each request; waits for the device.
  model::Result<std::vector<float>> run(const std::vector<float>& token_ids, std::int64_t cached,
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

 private:
  struct Kind {
    model::Graph graph, whole;  // what the rank has of it, and all of it
    std::map<model::TensorId, BufferPointer> activations;
  };
  model::Result<void> hold_parameter(std::int64_t layer, const Kind& kind, const Tensor& tensor,
                                     TrainedParameters& trained) {
    const auto values = TRY(from_training(trained, *rank_.architecture, layer, tensor.name));
    const Tensor& whole = of_name(kind.whole, tensor.name);
    BufferPointer& buffer = rank_.held[{layer, tensor.name}];
    buffer = rank_.device->allocate(tensor);
    rank_.device->write(
        *buffer, part_of(*rank_.architecture, whole, tensor, division_of(rank_.degrees, rank_.place.index), values));
    return {};
  }

  void run_block(std::int64_t layer, Kind& kind, Buffer* input, Buffer* output, const StepNumbers& numbers) {
    for (const model::Operator& op : kind.graph.operators) {
      Kernel kernel{.graph = &kind.graph, .op = &op, .tensor_rank = rank_.place.tensor, .numbers = numbers};
      for (const model::TensorId id : op.reads) kernel.reads.push_back(bind(layer, kind, id, input, output));
      for (const model::TensorId id : op.writes) kernel.writes.push_back(bind(layer, kind, id, input, output));
      launch(kernel);
    }
  }

  Buffer* bind(std::int64_t layer, Kind& kind, model::TensorId id, Buffer* input, Buffer* output) {
    const Tensor& tensor = kind.graph.tensor(id);
    if (is_trained(tensor) || tensor.role == Role::cache)
      return rank_.held.at({tensor.shared ? -1 : layer, tensor.name}).get();
    if (tensor.role == Role::constant) return data_.at(tensor.name).get();
    if (tensor.role == Role::input) return input;
    return id == kind.graph.output ? output : kind.activations.at(id).get();
  }

  void launch(const Kernel& kernel) {
    if (!is_collective(kernel.op->kind) && !is_all_to_all(kernel.op->kind))
      return rank_.device->launch(pass_stream, kernel);
    model::RankGroup group = model::expert_group(rank_.degrees);
    if (is_collective(kernel.op->kind)) {
      const auto& attributes = std::get<model::CollectiveAttributes>(kernel.op->attributes);
      group = {attributes.ranks, attributes.stride};
    }
    rank_.communicator->launch(pass_stream, strided_group(rank_.place, {0}, group.ranks, group.stride), kernel);
  }

  InstanceRank& rank_;
  std::vector<std::pair<std::int64_t, model::BlockKind>> blocks_;  // layer and kind
  std::map<model::BlockKind, Kind> kinds_;
  BufferPointer streams_[2];                   // what blocks pass on, in turns
  std::map<std::string, BufferPointer> data_;  // token ids and lengths
};

using Tokens = std::vector<std::int32_t>;

tl::unexpected<model::Error> refuse_key(const Plan& plan, std::string key, std::string message, std::string hint) {
  return tl::unexpected(
      model::plan_error(plan, model::ErrorKind::infeasible, std::move(key), std::move(message), std::move(hint)));
}

// Returns the instance that the ranks are; refuses what can be predicted but not executed.
Result<model::Instance> executed_instance(const Plan& plan, const model::Architecture& architecture) {
  const auto& serving = plan.inference;
  if (!serving.given)
    return refuse_key(plan, "inference", "the plan has no [inference]: it trains a model and does not serve it",
                      "give it [inference]");
  if (serving.disaggregated)
    return refuse_key(plan, "inference.disaggregated", "pools of each phase are simulated, not executed",
                      "set it to false");
  if (serving.speculative_tokens > 0)
    return refuse_key(plan, "inference.speculative_tokens", "speculation is simulated, not executed", "set it to 0");
  if (serving.two_micro_batches)
    return refuse_key(plan, "inference.two_micro_batches", "overlapped micro-batches are simulated, not executed",
                      "set it to false");
  const auto instance = TRY(model::make_instance(plan, architecture, model::PoolKind::both));
  if (instance.pipeline > 1)
    return refuse_key(plan, "parallelism.pipeline", "stages that serve are simulated, not executed", "set it to 1");
  if (instance.redundant_experts > 0)
    return refuse_key(plan, "inference.redundant_experts", "copies of experts are simulated, not executed",
                      "set it to 0");
  const std::int64_t ranks = instance.gpus();
  if (plan.cluster.gpus != ranks)
    return refuse_key(plan, "cluster.gpus",
                      fmt::format("one instance is executed, which has {} ranks (tensor x attention_data)", ranks),
                      fmt::format("set it to {}", ranks));
  const bool columns = instance.expert == 1 && instance.attention_data == 1;
  if (architecture.experts.routed_experts > 0 && instance.expert != ranks && !columns)
    return refuse_key(
        plan, "parallelism.expert",
        fmt::format("experts on {} of an instance's {} ranks are simulated, not executed", instance.expert, ranks),
        fmt::format("set it to {}", ranks));
  if (serving.concurrency == 0 || serving.concurrency % instance.attention_data != 0)
    return refuse_key(plan, "inference.concurrency",
                      fmt::format("{} requests are not shared by {} groups with requests of their own",
                                  serving.concurrency, instance.attention_data),
                      fmt::format("use a multiple of {}, from that on", instance.attention_data));
  const bool copied = architecture.attention == model::AttentionKind::grouped_query &&
                      architecture.key_value_heads % instance.tensor != 0;
  if (copied || architecture.vocabulary % instance.tensor != 0)
    return refuse_key(plan, "parallelism.tensor",
                      fmt::format("{} ranks do not divide {} key-value heads and a vocabulary of {}", instance.tensor,
                                  architecture.key_value_heads, architecture.vocabulary),
                      "use a divisor of both");
  return instance;
}

Result<std::vector<Tokens>> prompts_of(const RunInput& input, const GenerateOptions& options) {
  const std::int64_t requests = input.plan.inference.concurrency, length = input.plan.inference.input_tokens;
  constexpr std::int64_t bytes = 256;
  if (!options.prompt.empty()) {
    if (input.architecture.vocabulary < bytes)
      return model::wrong_input("--prompt", "the model's vocabulary cannot name all 256 bytes",
                                "use a model with a larger vocabulary");
    const Tokens one(reinterpret_cast<const unsigned char*>(options.prompt.data()),
                     reinterpret_cast<const unsigned char*>(options.prompt.data() + options.prompt.size()));
    return std::vector(static_cast<std::size_t>(requests), one);
  }
  const TextOptions text{input.architecture.vocabulary, length};
  const auto source = TRY(options.text.empty() ? synthetic_text(text) : file_text(options.text, text));
  std::vector<Tokens> prompts;
  for (std::int64_t request = 0; request < requests; ++request) {
    auto passage = TRY(source->sequence(request));
    passage.pop_back();  // the label of the last token
    prompts.push_back(std::move(passage));
  }
  return prompts;
}

InstanceRank rank_of(const RunInput& input, const model::Instance& instance, Device& device,
                     Communicator& communicator) {
  InstanceRank rank{&input.architecture, &device, &communicator};
  rank.degrees.tensor = instance.tensor;
  rank.degrees.expert = instance.expert;
  rank.degrees.expert_tensor = instance.expert_tensor();
  rank.place.world = rank.place.index = communicator.rank();
  rank.place.tensor = static_cast<std::int32_t>(communicator.rank() % instance.tensor);
  rank.place.data = static_cast<std::int32_t>(communicator.rank() / instance.tensor);
  rank.place.per_stage = static_cast<std::int32_t>(instance.gpus());
  rank.requests = input.plan.inference.concurrency / instance.attention_data;
  rank.first_request = rank.place.data * rank.requests;
  return rank;
}

// What a rank measured and generated.
struct RankOutcome {
  std::vector<double> seconds;  // of the prefill, then of each decode step
  std::vector<Tokens> outputs;  // of its requests
};

class Generator {
 public:
  Generator(const RunInput& input, const GenerateOptions& options, Device& device, Communicator& communicator)
      : input_(input), options_(options), device_(device), communicator_(communicator) {}

  Result<Generation> run() {
    const auto instance = TRY(executed_instance(input_.plan, input_.architecture));
    Generation result;
    result.prompts = TRY(prompts_of(input_, options_));
    const auto prompt = static_cast<std::int64_t>(result.prompts.front().size());
    TRY(check_positions(prompt));
    InstanceRank rank = rank_of(input_, instance, device_, communicator_);
    PassRunner prefill(rank, context_of(rank, model::InferencePass::Kind::prefill, prompt, prompt));
    PassRunner decode(rank, context_of(rank, model::InferencePass::Kind::decode, prompt, 1));
    TRY(check_formats(prefill));
    TRY(check_formats(decode));
    TRY(agree(communicator_, hold(prefill, decode, result.trained_steps)));
    const auto outcome = TRY(decode_all(rank, prefill, decode, result.prompts));
    return collect(std::move(result), TRY(communicator_.gather(model::to_bytes(outcome))));
  }

 private:
  // Returns the context of passes over so many new tokens of each request.
  model::LayerContext context_of(const InstanceRank& rank, model::InferencePass::Kind kind, std::int64_t prompt,
                                 std::int64_t tokens) const {
    model::LayerContext context;
    context.architecture = input_.architecture;
    context.gemm = context.dispatch = context.combine = input_.plan.inference.weights;
    context.tokens = rank.requests * tokens;
    context.tensor = rank.degrees.tensor;
    context.expert_parallel = rank.degrees.expert;
    context.expert_tensor = rank.degrees.expert_tensor;
    context.groups_per_token = model::groups_per_token(input_.plan, input_.architecture.experts);
    context.inference = {.kind = kind,
                         .requests = rank.requests,
                         .new_tokens = tokens,
                         .cache = input_.plan.inference.kv_cache,
                         .shared_tokens = rank.degrees.expert == 1,
                         .cache_rows = prompt + options_.tokens};
    return context;
  }

  Result<void> check_positions(std::int64_t prompt) const {
    const auto& a = input_.architecture;
    if (a.positions != model::PositionKind::learned || prompt + options_.tokens <= a.position_table) return {};
    return model::wrong_input("--generate",
                              fmt::format("{} tokens and a prompt of {} exceed the {} learned positions",
                                          options_.tokens, prompt, a.position_table),
                              "generate less");
  }

  Result<void> check_formats(const PassRunner& pass) const {
    const auto missing = pass.missing_format();
    if (!missing) return {};
    return refuse_key(input_.plan, missing->second,
                      fmt::format("{} is simulated, not executed here", to_string(missing->first)),
                      "set it to fp32, bf16 or fp16");
  }

  Result<void> hold(PassRunner& prefill, PassRunner& decode, std::int64_t& steps) const {
    auto trained = TRY(TrainedParameters::open(options_.checkpoint, input_.plan, input_.architecture));
    steps = trained.step();
    TRY(prefill.hold(trained));
    return decode.hold(trained);
  }

  // The first prefill warms up: it allocates, and the second one gives the same keys and values.
  Result<RankOutcome> decode_all(const InstanceRank& rank, PassRunner& prefill, PassRunner& decode,
                                 const std::vector<Tokens>& prompts) {
    RankOutcome outcome;
    outcome.outputs.resize(static_cast<std::size_t>(rank.requests));
    std::vector<float> ids;
    for (std::int64_t request = 0; request < rank.requests; ++request) {
      const Tokens& prompt = prompts[static_cast<std::size_t>(rank.first_request + request)];
      ids.insert(ids.end(), prompt.begin(), prompt.end());
    }
    StepNumbers numbers;
    numbers.temperature = options_.temperature;
    numbers.seed = options_.seed;
    numbers.first_request = rank.first_request;
    TRY(prefill.run(ids, 0, numbers));
    std::int64_t cached = 0;
    for (numbers.step = 1; numbers.step <= options_.tokens; ++numbers.step) {
      TRY(communicator_.sum({0}));  // all ranks begin together
      const double before = device_.now();
      ids = TRY((cached == 0 ? prefill : decode).run(ids, cached, numbers));
      outcome.seconds.push_back(device_.now() - before);
      cached = static_cast<std::int64_t>(prompts.front().size()) + numbers.step - 1;
      for (std::size_t request = 0; request < ids.size(); ++request)
        outcome.outputs[request].push_back(static_cast<std::int32_t>(ids[request]));
    }
    return outcome;
  }

  // Takes the outputs of the first rank of each tensor-parallel group, and the slowest rank's seconds.
  Result<Generation> collect(Generation result, const std::vector<std::string>& texts) const {
    std::vector<double> slowest(static_cast<std::size_t>(options_.tokens));
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      auto outcome = model::from_bytes<RankOutcome>(texts[rank]);
      if (!outcome)
        return infeasible("a rank's outputs cannot be read", "run the same version of plumbline on all ranks");
      std::ranges::transform(slowest, outcome->seconds, slowest.begin(), std::ranges::max);
      if (rank % static_cast<std::size_t>(input_.plan.parallelism.tensor) == 0)
        std::ranges::move(outcome->outputs, std::back_inserter(result.outputs));
    }
    result.prefill_s = slowest.front();
    result.decode_s.assign(slowest.begin() + 1, slowest.end());
    return result;
  }

  const RunInput& input_;
  const GenerateOptions& options_;
  Device& device_;
  Communicator& communicator_;
};

}  // namespace

Result<Generation> generate(const RunInput& input, const GenerateOptions& options, Device& device,
                            Communicator& communicator) {
  return Generator(input, options, device, communicator).run();
}

}  // namespace plumbline::real
