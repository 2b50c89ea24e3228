#include "real/measure/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "model/cost/measured_operators.h"
#include "model/cost/operator_class.h"
#include "model/cost/work.h"

namespace plumbline::real {

namespace {

using model::Phase;

void add_phase(Sequence& sequence, std::size_t block, Phase phase) {
  const auto& operators = sequence.graphs[sequence.blocks[block].graph].operators;
  for (std::size_t op = 0; op < operators.size(); ++op)
    if (operators[op].phase == phase) sequence.steps.push_back({block, op});
}

Sequence stage_sequence(const model::StepProgram& program, std::size_t stage, const std::string& name) {
  Sequence sequence;
  sequence.graphs = program.blocks;
  const auto& blocks = program.stage_kinds[program.stages[stage].kind].blocks;
  for (const std::uint16_t block : blocks)
    sequence.blocks.push_back({block, fmt::format("{}/{}/", name, program.blocks[block].name)});
  sequence.chained = blocks.size();
  for (std::size_t i = 0; i < blocks.size(); ++i) add_phase(sequence, i, Phase::F);
  for (std::size_t i = blocks.size(); i-- > 0;) {
    add_phase(sequence, i, Phase::I);
    add_phase(sequence, i, Phase::W);
  }
  sequence.graphs.push_back(program.stage_optimizers[stage]);
  sequence.blocks.push_back({sequence.graphs.size() - 1, name + "/optimizer/"});
  add_phase(sequence, sequence.blocks.size() - 1, Phase::W);
  return sequence;
}

// Adds the dispatch and combine of a block and their gradients.
void add_all_to_alls(const model::Graph& block, const std::string& name, std::vector<Workload>& workloads) {
  GroupWorkload group{.graph = block, .name = fmt::format("{}/{}/", name, block.name)};
  for (std::size_t op = 0; op < block.operators.size(); ++op) {
    const model::Operator& o = block.operators[op];
    if (o.recomputed) continue;
    if (o.kind == model::OperatorKind::router) group.before.push_back(op);
    if (!is_all_to_all(o.kind)) continue;
    const auto& attributes = std::get<model::DispatchAttributes>(o.attributes);
    group.ranks = attributes.experts / attributes.experts_per_rank;
    group.timed.push_back(op);
  }
  if (!group.timed.empty()) workloads.emplace_back(std::move(group));
}

// Adds one workload for each size of group.
void add_collectives(const model::Graph& optimizer, const std::string& name, std::vector<Workload>& workloads) {
  std::map<std::int64_t, GroupWorkload> groups;
  for (std::size_t op = 0; op < optimizer.operators.size(); ++op) {
    const auto* attributes = std::get_if<model::CollectiveAttributes>(&optimizer.operators[op].attributes);
    if (attributes == nullptr || attributes->ranks < 2) continue;
    GroupWorkload& group = groups[attributes->ranks];
    group.ranks = attributes->ranks;
    group.timed.push_back(op);
  }
  for (auto& [ranks, group] : groups) {
    group.graph = optimizer;
    group.name = name + "/optimizer/";
    workloads.emplace_back(std::move(group));
  }
}

}  // namespace

Sequence sequence_of(model::Graph graph, std::int64_t cores) {
  Sequence sequence;
  sequence.graphs.push_back(std::move(graph));
  sequence.blocks.push_back({0, ""});
  sequence.chained = 1;
  sequence.cores = static_cast<int>(cores);
  for (const Phase phase : {Phase::F, Phase::I, Phase::W}) add_phase(sequence, 0, phase);
  return sequence;
}

bool has_stand_in(model::OperatorKind kind) { return model::class_of(kind) >= model::OperatorClass::exchange; }

std::vector<Workload> plan_workloads(const model::StepProgram& program, const std::string& name,
                                     const std::vector<std::int64_t>& cores) {
  std::vector<Workload> workloads;
  std::set<std::int32_t> seen;
  for (std::size_t stage = 0; stage < program.stages.size(); ++stage) {
    if (!seen.insert(program.stages[stage].kind).second) continue;
    for (const std::int64_t count : cores) {
      Sequence sequence = stage_sequence(program, stage, name);
      sequence.cores = static_cast<int>(count);
      workloads.emplace_back(std::move(sequence));
    }
    add_collectives(program.stage_optimizers[stage], name, workloads);
  }
  for (const model::Graph& block : program.blocks) add_all_to_alls(block, name, workloads);
  return workloads;
}

std::vector<Subject> distinct_subjects(const std::vector<Workload>& workloads) {
  std::vector<Subject> distinct;
  std::set<Subject::Place> known;
  for (const Workload& workload : workloads) {
    for (Subject& subject : subjects_of(workload))
      if (known.insert(subject.place()).second) distinct.push_back(std::move(subject));
  }
  return distinct;
}

namespace {

using model::DataType;
using model::Operator;

bool is_number(DataType type) { return type != DataType::int32 && type != DataType::int64 && type != DataType::uint8; }

// Returns the format of a GEMM's wider operand; of other operators, that of the first output that holds no indices.
std::string format_of(const model::Graph& graph, const Operator& op) {
  if (is_gemm(op.kind)) {
    const DataType a = graph.tensor(op.reads[0]).type, b = graph.tensor(op.reads[1]).type;
    return std::string(to_string(bytes_per_element(a) >= bytes_per_element(b) ? a : b));
  }
  for (const auto* ids : {&op.writes, &op.reads})
    for (const model::TensorId id : *ids)
      if (is_number(graph.tensor(id).type)) return std::string(to_string(graph.tensor(id).type));
  return "";
}

// Returns the tensor that is processed row by row: the output, but of operators that sum, the input.
const model::Tensor& rows_of(const model::Graph& graph, const Operator& op) {
  const model::Tensor& written = graph.tensor(op.writes[0]);
  const bool sums = written.role == model::Role::gradient || op.kind == model::OperatorKind::cross_entropy ||
                    op.kind == model::OperatorKind::router || op.kind == model::OperatorKind::sum_of_squares;
  return sums ? graph.tensor(op.reads[0]) : written;
}

std::int64_t whole(double value) { return static_cast<std::int64_t>(std::ceil(value)); }

std::vector<std::pair<std::string, std::int64_t>> shape_of(const model::Graph& graph, const Operator& op) {
  if (is_gemm(op.kind)) {
    const model::GemmShape p = gemm_shape(graph, op, 1);
    return {{"m", whole(p.m)}, {"n", whole(p.n)}, {"k", whole(p.k)}, {"groups", whole(p.groups)}};
  }
  const model::Tensor& tensor = rows_of(graph, op);
  const std::int64_t columns = tensor.shape.size() > 1 ? tensor.shape.back().size : 1;
  std::vector<std::pair<std::string, std::int64_t>> shape = {
      {"rows", whole(tensor.elements()) / std::max<std::int64_t>(1, columns)}, {"columns", columns}};
  if (const auto* attention = std::get_if<model::AttentionAttributes>(&op.attributes)) {
    shape.emplace_back("sequence", attention->sequence_length);
    shape.emplace_back("heads", attention->query_heads);
  }
  return shape;
}

std::vector<Subject> subjects(const Sequence& sequence) {
  std::vector<Subject> found;
  for (const Sequence::Step& step : sequence.steps) {
    const Operator& op = sequence.op(step);
    if (has_stand_in(op.kind)) continue;
    found.push_back(subject_of(sequence.graph(step), op, sequence.blocks[step.block].name, sequence.cores));
    found.back().communication_sms = sequence.communication_sms;
  }
  return found;
}

std::vector<Subject> subjects(const MessageWorkload& message) {
  Subject subject{.op = "message", .name = "message", .key = fmt::format("message-{}", message.bytes)};
  subject.shape = {{"bytes", message.bytes}};
  subject.bytes = static_cast<double>(message.bytes);
  return {subject};
}

std::vector<Subject> subjects(const CollectiveWorkload& collective) {
  Subject subject{.op = std::string(to_string(collective.op)), .format = "fp32"};
  subject.name = subject.op;
  subject.key = fmt::format("{}-{}-{}", subject.op, collective.ranks, collective.bytes);
  subject.shape = {{"ranks", collective.ranks}, {"bytes", collective.bytes}};
  subject.bytes = static_cast<double>(collective.bytes);
  return {subject};
}

std::vector<Subject> subjects(const GroupWorkload& group) {
  std::vector<Subject> found;
  for (const std::size_t op : group.timed) {
    found.push_back(subject_of(group.graph, group.graph.operators[op], group.name, 1));
    found.back().shape.emplace_back("ranks", group.ranks);
  }
  return found;
}

std::vector<Subject> subjects(const LaunchWorkload&) {
  return {Subject{.op = "launch", .name = "between two kernels", .key = "launch"}};
}

}  // namespace

Subject subject_of(const model::Graph& graph, const Operator& op, const std::string& name, int cores) {
  Subject subject{.op = std::string(to_string(op.kind)),
                  .name = name + op.name,
                  .phase = std::string(to_string(op.phase)),
                  .format = format_of(graph, op),
                  .key = operator_key(graph, op),
                  .shape = shape_of(graph, op)};
  subject.cores = cores;
  subject.flops = model::flops(graph, op, 1, true).value();
  subject.bytes = model::bytes_moved(graph, op, 1).value();
  return subject;
}

std::vector<Subject> subjects_of(const Workload& workload) {
  return std::visit([](const auto& one) { return subjects(one); }, workload);
}

}  // namespace plumbline::real
