#include "real/host/measure/case_workloads.h"

#include <string>
#include <utility>

#include "real/host/measure/small_graphs.h"

namespace plumbline::real::host {
namespace {

using model::OperatorKind;
using model::Phase;

void add_products(const CaseFile& file, std::vector<Workload>& workloads) {
  for (const ProductCases& cases : file.products)
    for (const std::int64_t m : cases.m)
      for (const std::int64_t n : cases.n)
        for (const std::int64_t k : cases.k)
          for (const std::int64_t cores : cases.cores)
            workloads.emplace_back(sequence_of(product_graph(m, n, k, cases.format), cores));
}

void add_attentions(const CaseFile& file, std::vector<Workload>& workloads) {
  for (const AttentionCases& cases : file.attentions)
    for (const std::int64_t sequence : cases.sequence)
      for (const std::int64_t heads : cases.heads)
        for (const std::int64_t dim : cases.head_dim)
          for (const std::int64_t cores : cases.cores)
            workloads.emplace_back(sequence_of(attention_graph(sequence, heads, dim, cases.format), cores));
}

void add_memories(const CaseFile& file, std::vector<Workload>& workloads) {
  for (const MemoryCases& cases : file.memories)
    for (const std::string& op : cases.operators)
      for (const std::int64_t rows : cases.rows)
        for (const std::int64_t columns : cases.columns)
          for (const std::int64_t cores : cases.cores)
            workloads.emplace_back(sequence_of(memory_graph(op, rows, columns, cases.format), cores));
}

// The forward product alone: one sample of a disturbed kernel needs one kernel.
void add_interferences(const CaseFile& file, std::vector<Workload>& workloads) {
  for (const InterferenceCases& cases : file.interferences)
    for (const std::int64_t m : cases.m)
      for (const std::int64_t n : cases.n)
        for (const std::int64_t k : cases.k)
          for (const std::int64_t cores : cases.cores)
            for (const std::int64_t copy_cores : cases.copy_cores) {
              Sequence sequence = sequence_of(product_graph(m, n, k, model::Precision::fp32), cores);
              std::erase_if(sequence.steps, [&](const auto& step) { return sequence.op(step).phase != Phase::F; });
              sequence.copy_cores = static_cast<int>(copy_cores);
              workloads.emplace_back(std::move(sequence));
            }
}

}  // namespace

std::vector<Workload> workloads_of(const CaseFile& file) {
  std::vector<Workload> workloads;
  add_products(file, workloads);
  add_attentions(file, workloads);
  add_memories(file, workloads);
  for (const MessageCases& cases : file.messages)
    for (const std::int64_t bytes : cases.bytes) workloads.emplace_back(MessageWorkload{bytes});
  for (const CollectiveCases& cases : file.collectives)
    for (const OperatorKind op : cases.operators)
      for (const std::int64_t ranks : cases.ranks)
        for (const std::int64_t bytes : cases.bytes) workloads.emplace_back(CollectiveWorkload{op, ranks, bytes});
  add_interferences(file, workloads);
  if (file.launch) workloads.emplace_back(LaunchWorkload{});
  return workloads;
}

}  // namespace plumbline::real::host
