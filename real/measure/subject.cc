#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/cost/measured_operators.h"
#include "model/cost/operator_class.h"
#include "model/cost/work.h"
#include "real/measure/workload.h"

namespace plumbline::real {
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
