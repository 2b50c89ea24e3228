#include "real/executor/inference/generate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "model/architecture/architecture.h"
#include "model/layers/context.h"
#include "model/plan/instance.h"
#include "model/plan/layout.h"
#include "real/executor/agreement.h"
#include "real/executor/inference/detail/pass_runner.h"
#include "real/executor/step/trained_parameters.h"
#include "real/executor/training/text.h"

namespace plumbline::real {

using model::Plan;
using model::Result;

namespace {

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

// What a rank measured and generated, and its text for rank 0.
struct RankOutcome {
  std::vector<double> seconds;  // of the prefill, then of each decode step
  std::vector<Tokens> outputs;  // of its requests

  std::string text() const {
    std::string all = fmt::format("{}\n", fmt::join(seconds, " "));
    for (const Tokens& tokens : outputs) all += fmt::format("{}\n", fmt::join(tokens, " "));
    return all;
  }
};

template <class Value>
std::vector<Value> numbers_of(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<Value>(words), {}};
}

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
    return collect(std::move(result), TRY(communicator_.gather(outcome.text())));
  }

 private:
  // Returns the context of passes over so many new tokens of each request.
  model::LayerContext context_of(const InstanceRank& rank, model::InferencePass::Kind kind, std::int64_t prompt,
                                 std::int64_t tokens) const;

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
  Generation collect(Generation result, const std::vector<std::string>& texts) const {
    std::vector<double> slowest(static_cast<std::size_t>(options_.tokens));
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      std::istringstream lines(texts[rank]);
      std::string line;
      std::getline(lines, line);
      std::ranges::transform(slowest, numbers_of<double>(line), slowest.begin(), std::ranges::max);
      if (rank % static_cast<std::size_t>(input_.plan.parallelism.tensor) != 0) continue;
      while (std::getline(lines, line)) result.outputs.push_back(numbers_of<std::int32_t>(line));
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

model::LayerContext Generator::context_of(const InstanceRank& rank, model::InferencePass::Kind kind,
                                          std::int64_t prompt, std::int64_t tokens) const {
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

}  // namespace

Result<Generation> generate(const RunInput& input, const GenerateOptions& options, Device& device,
                            Communicator& communicator) {
  return Generator(input, options, device, communicator).run();
}

}  // namespace plumbline::real
