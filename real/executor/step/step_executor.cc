#include "real/executor/step/step_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "model/program/compile.h"
#include "real/executor/step/detail/data_parallel_runner.h"
#include "real/executor/step/detail/plan_support.h"
#include "real/executor/step/detail/slot_launcher.h"
#include "real/executor/step/parameter_part.h"
#include "real/executor/step/step_timeline.h"

namespace plumbline::real {
namespace {

using model::Operator;
using model::OperatorKind;
using model::Role;
using model::Stream;
using model::TensorId;

model::Tensor scalar(const char* name) { return {.name = name, .shape = {{1}}, .type = model::DataType::fp32}; }

const Operator& sum_operator() {
  static const Operator op{.kind = OperatorKind::add, .name = "sum"};
  return op;
}
const Operator& agree_operator() {
  static const Operator op{.kind = OperatorKind::all_reduce, .name = "agree"};
  return op;
}

// Runs the end of a step on a rank, after its slots: the gradients' norm, agreement on overflow, AdamW.
class OptimizerStep {
 public:
  explicit OptimizerStep(RankState& rank) : rank_(rank) {
    Device& device = rank.device();
    for (std::size_t i = 0; i < rank.stages.size(); ++i) {
      found_.push_back(device.allocate(scalar("found_inf")));
      squares_.push_back(device.allocate(scalar("sum_of_squares")));
    }
    found_anywhere_ = device.allocate(scalar("found_inf_anywhere"));
    all_squares_ = device.allocate(scalar("sum_of_all_squares"));
    scale_ = device.allocate(scalar("loss_scale"));
  }

  struct Outcome {
    bool finite = true;        // else nothing was updated
    double gradient_norm = 0;  // of the mean gradient; 0 where the plan does not clip
  };
  // Requires that the compute stream waits for the reduction of all gradients. Waits for the device.
  model::Result<Outcome> run(DataParallelRunner& data_parallel) {
    Outcome outcome;
    Device& device = rank_.device();
    if (const auto unscales = operators(OperatorKind::unscale); !unscales.empty()) {
      TRY(device.synchronize());
      const model::Layout& layout = *rank_.input.layout;
      const float scale =
          static_cast<float>(rank_.numbers.loss_scale * static_cast<double>(layout.micro_batches * layout.data));
      device.write(*scale_, {&scale, 1});
      for (std::size_t i = 0; i < unscales.size(); ++i) {
        const auto& [stage, op] = unscales[i];
        Kernel kernel = kernel_of(stage, *op);
        for (std::size_t r = 0; r + 1 < op->reads.size(); ++r) kernel.reads.push_back(bind(stage, op->reads[r]));
        for (std::size_t w = 0; w + 1 < op->writes.size(); ++w) kernel.writes.push_back(bind(stage, op->writes[w]));
        kernel.reads.push_back(scale_.get());
        kernel.writes.push_back(found_[i].get());
        device.launch(Stream::compute, kernel);
      }
      agree(found_, found_anywhere_.get(), "found_inf_anywhere");
      TRY(device.synchronize());
      outcome.finite = device.read(*found_anywhere_)[0] == 0;
      if (!outcome.finite) return outcome;
    }
    const auto norms = operators(OperatorKind::sum_of_squares);
    for (std::size_t i = 0; i < norms.size(); ++i)
      launch_sum_of_squares(norms[i].first, *norms[i].second, squares_[i].get());
    if (!norms.empty()) agree(squares_, all_squares_.get(), "sum_of_all_squares");
    for (const auto& [stage, op] : operators(OperatorKind::adamw)) launch(stage, *op, all_squares_.get());
    if (rank_.program().gather_after_update)
      for (const auto& [stage, local] : rank_.stages)
        for (std::size_t unit = 0; unit < local.state->units().size(); ++unit)
          data_parallel.gather(stage, unit, Stream::compute);
    TRY(device.synchronize());
    if (!norms.empty()) outcome.gradient_norm = std::sqrt(device.read(*all_squares_)[0]);
    return outcome;
  }

 private:
  // Returns the kernel of an operator of a stage's optimizer, without its buffers.
  Kernel kernel_of(std::int32_t stage, const Operator& op) {
    return {
        .graph = &rank_.stages.at(stage).state->optimizer(), .op = &op, .label = rank_.labels.add({.name = op.name})};
  }

  void launch(std::int32_t stage, const Operator& op, Buffer* squares) {
    Kernel kernel = kernel_of(stage, op);
    for (const model::TensorId id : op.reads) kernel.reads.push_back(kernel.reads.empty() ? bind(stage, id) : squares);
    for (const model::TensorId id : op.writes) kernel.writes.push_back(bind(stage, id));
    kernel.numbers = rank_.numbers;
    rank_.device().launch(Stream::compute, kernel);
  }

  void launch_sum_of_squares(std::int32_t stage, const Operator& op, Buffer* result) {
    Kernel kernel = kernel_of(stage, op);
    // Reads are in the order of the units.
    for (std::size_t unit = 0; unit < op.reads.size(); ++unit) weigh(stage, unit, op.reads[unit], kernel);
    kernel.writes = {result};
    rank_.device().launch(Stream::compute, kernel);
  }

  // Weighs each part of the gradient by 1 / the number of ranks that hold it, so that the sum over ranks counts it
  // once.
  void weigh(std::int32_t stage, std::size_t unit_index, model::TensorId id, Kernel& kernel) {
    Buffer* gradient = bind(stage, id);
    const auto [entry, fresh] = weighed_.try_emplace({stage, gradient});
    if (fresh) {
      const LocalStage& local = rank_.stages.at(stage);
      const StageState::Unit& unit = local.state->units()[unit_index];
      const std::int64_t shard = unit.shard();
      const Group group = strided_group(rank_.place, local.holders, unit.group.shards, unit.group.stride);
      const auto replicas = static_cast<double>(unit.group.replicas);
      const std::int64_t tensor = unit.expert ? 1 : rank_.input.plan->parallelism.tensor;
      const std::int64_t whole = std::clamp<std::int64_t>(unit.whole - group.position * shard, 0, shard);
      const model::DataType type = local.state->optimizer().tensor(id).type;
      const auto add = [&](std::int64_t first, std::int64_t count, double weight) {
        if (count == 0) return;
        views_.push_back(rank_.device().view(*gradient, first, {.name = "part", .shape = {{count}}, .type = type}));
        entry->second.emplace_back(views_.back().get(), weight);
      };
      add(0, whole, 1 / (replicas * static_cast<double>(tensor)));
      add(whole, shard - whole, 1 / replicas);
    }
    for (const auto& [view, weight] : entry->second) {
      kernel.reads.push_back(view);
      kernel.weights.push_back(weight);
    }
  }

  void agree(std::vector<BufferPointer>& parts, Buffer* sum, const char* name) {
    Kernel kernel{.op = &sum_operator(), .writes = {sum}, .label = rank_.labels.add({.name = name})};
    for (const BufferPointer& part : parts) kernel.reads.push_back(part.get());
    rank_.device().launch(Stream::compute, kernel);
    if (rank_.communicator().ranks() == 1) return;
    const Kernel reduce{
        .op = &agree_operator(), .reads = {sum}, .writes = {sum}, .label = rank_.labels.add({.name = name})};
    rank_.communicator().launch(Stream::compute, rank_.world(), reduce);
  }

  std::vector<std::pair<std::int32_t, const Operator*>> operators(OperatorKind kind) const {
    std::vector<std::pair<std::int32_t, const Operator*>> found;
    for (const auto& [stage, local] : rank_.stages)
      for (const Operator& op : local.state->optimizer().operators)
        if (op.kind == kind) found.emplace_back(stage, &op);
    return found;
  }

  Buffer* bind(std::int32_t stage, model::TensorId id) const {
    return rank_.stages.at(stage).state->optimizer_tensor(id);
  }

  RankState& rank_;
  std::vector<BufferPointer> found_, squares_;  // of each stage
  BufferPointer found_anywhere_, all_squares_, scale_;
  std::vector<BufferPointer> views_;  // parts of shards that differ in the number of ranks that hold them
  std::map<std::pair<std::int32_t, const Buffer*>, std::vector<std::pair<Buffer*, double>>> weighed_;
};

// Returns the CPU time of this thread, in which it does not wait for others.
double thread_seconds() {
  constexpr double nanosecond = 1e-9;
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + nanosecond * static_cast<double>(time.tv_nsec);
}

// Returns the prefix of the names of a block's parameters ("layer 3 moe_layer/"), the same in every division.
std::string place_name(const StageState& stage, std::uint16_t position) {
  return fmt::format("layer {} {}/", stage.layer(position), stage.block(position).name);
}

// Writes this rank's part of the initial parameters, which do not depend on the division (parameter_part.h). Requires
// an idle device.
void write_initial_parameters(RankState& rank) {
  const StepInput& input = rank.input;
  const Division division = division_of(input.plan->parallelism, rank.place.index);
  const model::LayerContext undivided =
      model::plan_context(*input.plan, *input.architecture, *input.layout, {1, 1}).undivided();
  std::vector<float> values;
  for (const auto& [stage, local] : rank.stages) {
    const auto blocks = model::stage_blocks(*input.plan, *input.architecture, *input.layout, stage);
    for (std::uint16_t position = 0; position < local.state->positions(); ++position) {
      const model::Graph whole = model::make_stage_block(blocks[position].kind, blocks[position].pass, undivided);
      const model::Graph& held = local.state->block(position);
      for (TensorId id = 0; id < held.tensors.size(); ++id) {
        const model::Tensor& part = held.tensor(id);
        if (part.role != Role::parameter || part.shared) continue;
        const auto of_whole = std::ranges::find_if(whole.tensors, [&](const model::Tensor& candidate) {
          return candidate.role == Role::parameter && candidate.name == part.name;
        });
        initial_part(*input.architecture, *of_whole, part, division, place_name(*local.state, position) + part.name,
                     values);
        rank.device().write(*local.state->find(position, id), values);
      }
    }
    std::vector<std::int32_t> shards;
    for (const StageState::Unit& unit : local.state->units())
      shards.push_back(strided_group(rank.place, local.holders, unit.group.shards, unit.group.stride).position);
    local.state->copy_parameters_to_shards(shards);
  }
}

// Returns a micro-batch's loss. With a divided vocabulary it is computed from figures that the ranks have summed.
double loss_of(const RankState& rank, const LocalStage& stage, std::uint16_t position, const model::Operator& op,
               std::int64_t key) {
  Activations& activations = *stage.activations;
  if (rank.input.plan->parallelism.tensor == 1)
    return rank.device().read(*activations.find(position, op.writes[0], key, true, model::Stream::compute))[0];
  const model::Graph& graph = stage.state->block(position);
  const auto reduction = std::ranges::find_if(graph.operators, [&](const model::Operator& candidate) {
    return candidate.kind == model::OperatorKind::all_reduce && candidate.reads[0] == op.writes[1];
  });
  const std::vector<float> figures =
      rank.device().read(*activations.find(position, reduction->writes[0], key, true, model::Stream::compute));
  double sum = 0, labeled = 0;
  for (std::size_t t = 0; t + 2 < figures.size(); t += 3) {
    if (figures[t + 2] == 0) continue;
    sum += std::log(static_cast<double>(figures[t])) - static_cast<double>(figures[t + 1]);
    ++labeled;
  }
  return labeled > 0 ? sum / labeled : 0;
}

// Returns the loss of the main model's head, summed over the rank's micro-batches that end on this rank; 0 where none
// does. Requires an idle device.
double summed_loss(const RankState& rank, const std::vector<MicroBatchPlace>& places) {
  const std::int32_t last = rank.program().schedule.stages - 1;
  const auto found = rank.stages.find(last);
  if (found == rank.stages.end()) return 0;
  const auto position = static_cast<std::uint16_t>(found->second.state->positions() - 1);
  double sum = 0;
  for (const MicroBatchPlace& place : places) {
    if (rank.program().schedule.rank_of(place.direction, last) != rank.place.pipeline) continue;
    for (const model::Operator& op : found->second.state->block(position).operators)
      if (op.kind == model::OperatorKind::cross_entropy && !op.recomputed)
        sum += loss_of(rank, found->second, position, op, rank.key(place.direction, place.micro_batch));
  }
  return sum;
}

const model::Operator& barrier_operator() {
  static const model::Operator op{.kind = model::OperatorKind::all_reduce, .name = "barrier"};
  return op;
}

class StepExecutor final : public TrainingStep {
 public:
  explicit StepExecutor(const StepInput& input) {
    rank_.input = input;
    rank_.place = rank_place(*input.plan, input.communicator->rank());
    rank_.pool = std::make_unique<BufferPool>(*input.device);
    const model::Schedule& schedule = input.program->schedule;
    for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
      for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
        if (schedule.rank_of(direction, stage) == rank_.place.pipeline) add_stage(stage);
    write_initial_parameters(rank_);
    launcher_ = std::make_unique<SlotLauncher>(rank_);
    data_parallel_ = std::make_unique<DataParallelRunner>(rank_);
    optimizer_ = std::make_unique<OptimizerStep>(rank_);
    barrier_ = input.device->allocate({.name = "barrier", .shape = {{1}}, .type = model::DataType::fp32});
  }

  // Sequences are numbered by data rank, then micro-batch, then direction; another division of the batch assigns the
  // same sequences to other ranks.
  std::vector<MicroBatchPlace> places() const override {
    const model::Plan& plan = *rank_.input.plan;
    const model::Schedule& schedule = rank_.program().schedule;
    const std::int32_t per_direction = schedule.shape.micro_batches / schedule.directions;
    std::vector<MicroBatchPlace> result;
    for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
      for (std::int32_t i = 0; i < per_direction; ++i) {
        const std::int64_t number =
            (std::int64_t{rank_.place.data} * schedule.directions + direction) * per_direction + i;
        result.push_back({direction, i, number * plan.batch.micro_batch_size});
      }
    return result;
  }

  model::Result<StepOutcome> run(const std::vector<MicroBatch>& batches, const StepNumbers& numbers) override {
    TRY(rank_.device().synchronize());
    rank_.labels.clear();
    rank_.device().take_records();
    rank_.numbers = numbers;
    write_data(batches);
    barrier();
    const double began = thread_seconds();
    launch_slots();
    const double issued = thread_seconds() - began;
    const auto updated = TRY(optimizer_->run(*data_parallel_));
    in_shards_ =
        updated.finite && rank_.input.plan->parallelism.zero_stage >= 1 && !rank_.program().gather_after_update;
    StepOutcome result = outcome(issued);
    result.finite = updated.finite;
    result.gradient_norm = updated.gradient_norm;
    return result;
  }

  std::vector<StatePiece> state() override {
    gather_now();
    std::vector<StatePiece> pieces;
    for (const auto& [stage, local] : rank_.stages)
      std::ranges::move(local.state->pieces(), std::back_inserter(pieces));
    return pieces;
  }

  Device& device() override { return rank_.device(); }

  std::vector<float> router_bias(std::int64_t layer) override {
    Buffer* bias = bias_of(layer);
    return bias == nullptr ? std::vector<float>{} : rank_.device().read(*bias);
  }

  void set_router_bias(std::int64_t layer, const std::vector<float>& values) override {
    if (Buffer* bias = bias_of(layer)) rank_.device().write(*bias, values);
  }

  // Returns all parameters or all gradients.
  std::vector<NamedBuffer> named(Role role) {
    gather_now();
    std::vector<NamedBuffer> result;
    for_each_tensor([&](std::int32_t stage, std::uint16_t position, TensorId id, const model::Tensor& tensor) {
      if (tensor.role != role || tensor.shared) return;
      const std::string name = role == Role::gradient ? tensor.name.substr(2) : tensor.name;
      result.push_back({place_name(*rank_.stages.at(stage).state, position) + name, &tensor,
                        rank_.stages.at(stage).state->find(position, id)});
    });
    return result;
  }

 private:
  void add_stage(std::int32_t stage) {
    const StepInput& input = rank_.input;
    LocalStage local;
    local.state = std::make_unique<StageState>(*input.device, *input.plan, *input.layout, *input.program, stage);
    local.activations = std::make_unique<Activations>(*rank_.pool, *input.program,
                                                      input.program->stages[static_cast<std::size_t>(stage)].kind);
    local.holders = holders(input.program->schedule, stage);
    rank_.stages.emplace(stage, std::move(local));
  }

  template <class Visit>
  void for_each_tensor(Visit visit) {
    for (const auto& [stage, local] : rank_.stages)
      for (std::uint16_t position = 0; position < local.state->positions(); ++position)
        for (TensorId id = 0; id < local.state->block(position).tensors.size(); ++id)
          visit(stage, position, id, local.state->block(position).tensor(id));
  }

  // Returns the number of the layer for the trainer; -1 for the multi-token prediction module.
  std::int64_t layer_of(std::int32_t stage, std::uint16_t position) const {
    const std::int64_t layer = rank_.stages.at(stage).state->layer(position);
    return layer < rank_.input.architecture->layers ? layer : -1;
  }

  Buffer* bias_of(std::int64_t layer) {
    Buffer* found = nullptr;
    for_each_tensor([&](std::int32_t stage, std::uint16_t position, TensorId id, const model::Tensor& tensor) {
      const StageState& state = *rank_.stages.at(stage).state;
      if (tensor.role == Role::constant && tensor.name == "router_bias" && layer_of(stage, position) == layer)
        found = state.find(position, id);
    });
    return found;
  }

  void gather_now() {
    if (!std::exchange(in_shards_, false)) return;
    for (const auto& [stage, local] : rank_.stages)
      for (std::size_t unit = 0; unit < local.state->units().size(); ++unit)
        data_parallel_->gather(stage, unit, Stream::compute);
  }

  void write_data(const std::vector<MicroBatch>& batches) {
    const std::int64_t length = rank_.input.plan->batch.sequence_length;
    for_each_tensor([&](std::int32_t stage, std::uint16_t position, TensorId id, const model::Tensor& tensor) {
      if (tensor.role != Role::constant || tensor.name == "router_bias") return;
      for (const MicroBatch& batch : batches) {
        if (rank_.program().schedule.rank_of(batch.place.direction, stage) != rank_.place.pipeline) continue;
        Buffer* buffer =
            launcher_->data(stage, position, id, rank_.key(batch.place.direction, batch.place.micro_batch));
        std::vector<float> values = tensor.name == "token_ids" ? batch.token_ids : batch.labels;
        if (tensor.name == "mtp_labels")  // the labels of the next tokens
          for (std::size_t t = 0; t < values.size(); ++t) {
            const bool last = (static_cast<std::int64_t>(t) + 1) % length == 0;
            values[t] = last ? -1.0F : values[t + 1];
          }
        rank_.device().write(*buffer, values);
      }
    });
  }

  // A barrier of all ranks; the step's time counts from its end.
  void barrier() {
    const Kernel kernel{.op = &barrier_operator(),
                        .reads = {barrier_.get()},
                        .writes = {barrier_.get()},
                        .label = rank_.labels.add({.name = "barrier"})};
    rank_.communicator().launch(Stream::compute, rank_.world(), kernel);
  }

  void launch_slots() {
    for (const auto& [stage, local] : rank_.stages)
      for (StageState::Unit& unit : local.state->units())
        rank_.device().clear(Stream::compute, *unit.gradients, rank_.labels.add({.name = "clear gradients"}));
    for (const auto& [place, load] : launcher_->loads())
      rank_.device().clear(Stream::compute, *load, rank_.labels.add({.name = "clear gradients"}));
    data_parallel_->begin(std::exchange(in_shards_, false));
    const SlotLauncher::ConcurrentWork concurrent{
        [this](std::int32_t slot, std::int32_t segment, Stream stream) {
          data_parallel_->before(slot, segment, stream);
        },
        [this](std::int32_t slot, std::int32_t segment) { data_parallel_->after(slot, segment); }};
    for (std::int32_t slot = 0; slot <= static_cast<std::int32_t>(rank_.ops().size()); ++slot)
      launcher_->launch(slot, concurrent);
    data_parallel_->finish();
  }

  StepOutcome outcome(double issued) {
    StepOutcome result;
    std::vector<KernelRecord> records = rank_.device().take_records();
    const auto barrier = std::ranges::find_if(
        records, [this](const KernelRecord& record) { return rank_.labels[record.label].name == "barrier"; });
    const double origin = barrier->end;
    records.erase(barrier);
    result.timeline = rank_timeline(rank_, records, origin);
    std::map<std::string_view, double> classes;
    std::size_t operators = 0;
    for (const KernelRecord& record : records)
      if (const Label& label = rank_.labels[record.label]; !label.breakdown.empty()) {
        classes[label.breakdown] += record.end - record.start;
        ++operators;
      }
    result.issue_seconds = operators > 0 ? issued / static_cast<double>(operators) : 0;
    result.class_seconds.assign(classes.begin(), classes.end());
    result.seconds = static_cast<double>(result.timeline.end_ps) * 1e-12;
    for (const auto& [place, load] : launcher_->loads()) {
      const std::vector<float> rows = rank_.device().read(*load);
      result.loads.push_back({layer_of(place.first, place.second), {rows.begin(), rows.end()}});
    }
    result.loss = summed_loss(rank_, places());
    for (const MicroBatchPlace& place : places())
      if (rank_.program().schedule.rank_of(place.direction, rank_.program().schedule.stages - 1) ==
          rank_.place.pipeline)
        ++result.loss_weight;
    if (result.loss_weight > 0) result.loss /= result.loss_weight;
    return result;
  }

  RankState rank_;
  std::unique_ptr<SlotLauncher> launcher_;
  std::unique_ptr<DataParallelRunner> data_parallel_;
  std::unique_ptr<OptimizerStep> optimizer_;
  BufferPointer barrier_;
  bool in_shards_ = false;  // the parameters of the last update have not been gathered yet
};

}  // namespace

model::Result<std::unique_ptr<TrainingStep>> make_step(const StepInput& input) {
  if (const auto error = check_executable(*input.plan, *input.architecture, *input.program, *input.device))
    return tl::unexpected(*error);
  if (input.communicator->ranks() != input.plan->cluster.gpus)
    return tl::unexpected(model::plan_error(
        *input.plan, model::ErrorKind::infeasible, "cluster.gpus",
        fmt::format("the plan has {} ranks, but {} were started", input.plan->cluster.gpus,
                    input.communicator->ranks()),
        fmt::format("start as many processes as the plan has ranks: mpirun -n {}, or run it in one process",
                    input.plan->cluster.gpus)));
  return std::make_unique<StepExecutor>(input);
}

std::vector<NamedBuffer> parameters_of(TrainingStep& step) {
  return static_cast<StepExecutor&>(step).named(Role::parameter);
}

std::vector<NamedBuffer> gradients_of(TrainingStep& step) {
  return static_cast<StepExecutor&>(step).named(Role::gradient);
}

}  // namespace plumbline::real
