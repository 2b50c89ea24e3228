#include "real/host/measure/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/base/table_reader.h"
#include "real/host/measure/detail/small_graphs.h"

namespace plumbline::real::host {
namespace {

void add_gemms(const CaseFile& file, std::vector<Workload>& workloads) {
  for (const GemmCases& cases : file.gemms)
    for (const std::int64_t m : cases.m)
      for (const std::int64_t n : cases.n)
        for (const std::int64_t k : cases.k)
          for (const std::int64_t cores : cases.cores)
            workloads.emplace_back(sequence_of(gemm_graph(m, n, k, cases.format), cores));
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

// Measures the forward GEMM alone, because one sample under interference needs one kernel.
void add_interferences(const CaseFile& file, std::vector<Workload>& workloads) {
  for (const InterferenceCases& cases : file.interferences)
    for (const std::int64_t m : cases.m)
      for (const std::int64_t n : cases.n)
        for (const std::int64_t k : cases.k)
          for (const std::int64_t cores : cases.cores)
            for (const std::int64_t communication_sms : cases.communication_sms) {
              Sequence sequence = sequence_of(gemm_graph(m, n, k, model::Precision::fp32), cores);
              std::erase_if(sequence.steps,
                            [&](const auto& step) { return sequence.op(step).phase != model::Phase::F; });
              sequence.communication_sms = static_cast<int>(communication_sms);
              workloads.emplace_back(std::move(sequence));
            }
}

constexpr std::array collectives = {model::OperatorKind::all_reduce, model::OperatorKind::reduce_scatter,
                                    model::OperatorKind::all_gather};

using model::TableReader;

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  return model::did_you_mean(name, known, fmt::format("known: {}", fmt::join(known, ", ")));
}

void read_format(TableReader& table, model::Precision& field) {
  if (!table.has("format")) return;
  const std::string word = table.text("format");
  const auto parsed = model::parse_precision(word);
  const bool computed = parsed && (*parsed == model::Precision::fp32 || *parsed == model::Precision::bf16 ||
                                   *parsed == model::Precision::fp16);
  if (!computed)
    return table.fail("format", table.line_of("format"), fmt::format("the host computes no '{}'", word),
                      "fp32, bf16 or fp16");
  field = *parsed;
}

// Returns the operators of a table, each of which is one of the known ones.
std::vector<std::string> read_operators(TableReader& table, const std::vector<std::string>& known, const char* what) {
  std::vector<std::string> words = table.text_or_texts("operators");
  for (const std::string& word : words)
    if (std::ranges::find(known, word) == known.end())
      table.fail("operators", table.line_of("operators"), fmt::format("'{}' is {}", word, what),
                 suggestion(word, known));
  return words;
}

void read(TableReader& table, PlanCases& cases) {
  cases.line = table.line();
  cases.plan = table.text("plan");
  if (table.has("set")) cases.set = table.text_or_texts("set");
  READ_OPTIONAL(table, cases, cores);
}

void read(TableReader& table, GemmCases& cases) {
  READ_REQUIRED(table, cases, m, n, k);
  READ_OPTIONAL(table, cases, cores);
  read_format(table, cases.format);
}

void read(TableReader& table, AttentionCases& cases) {
  READ_REQUIRED(table, cases, sequence, heads, head_dim);
  READ_OPTIONAL(table, cases, cores);
  read_format(table, cases.format);
}

void read(TableReader& table, MemoryCases& cases) {
  cases.operators = read_operators(table, memory_operators(), "not measured alone");
  READ_REQUIRED(table, cases, rows, columns);
  READ_OPTIONAL(table, cases, cores);
  read_format(table, cases.format);
}

void read(TableReader& table, MessageCases& cases) { READ_REQUIRED(table, cases, bytes); }

void read(TableReader& table, CollectiveCases& cases) {
  std::vector<std::string> known;
  for (const model::OperatorKind kind : collectives) known.emplace_back(to_string(kind));
  for (const std::string& word : read_operators(table, known, "no collective"))
    if (const auto found = std::ranges::find(known, word); found != known.end())
      cases.operators.push_back(collectives[static_cast<std::size_t>(found - known.begin())]);
  READ_REQUIRED(table, cases, ranks, bytes);
}

void read(TableReader& table, InterferenceCases& cases) {
  READ_REQUIRED(table, cases, m, n, k);
  READ_OPTIONAL(table, cases, cores);
  table.optional("copy_cores", cases.communication_sms);
}

template <class Cases>
void read_all(TableReader& file, const char* name, std::vector<Cases>& cases) {
  file.optional_tables(name, [&cases](TableReader& table) { read(table, cases.emplace_back()); });
}

Numbers powers_up_to(int cores) {
  Numbers counts;
  for (int count = 1; count < cores; count *= 2) counts.push_back(count);
  counts.push_back(cores);
  return counts;
}

}  // namespace

std::vector<Workload> workloads_of(const CaseFile& file) {
  std::vector<Workload> workloads;
  add_gemms(file, workloads);
  add_attentions(file, workloads);
  add_memories(file, workloads);
  for (const MessageCases& cases : file.messages)
    for (const std::int64_t bytes : cases.bytes) workloads.emplace_back(MessageWorkload{bytes});
  for (const CollectiveCases& cases : file.collectives)
    for (const model::OperatorKind op : cases.operators)
      for (const std::int64_t ranks : cases.ranks)
        for (const std::int64_t bytes : cases.bytes) workloads.emplace_back(CollectiveWorkload{op, ranks, bytes});
  add_interferences(file, workloads);
  if (file.launch) workloads.emplace_back(LaunchWorkload{});
  return workloads;
}

model::Result<CaseFile> parse_cases(std::string_view text, const std::string& path) {
  CaseFile cases;
  TRY(model::read_table_text(text, path, [&cases](TableReader& file) {
    if (file.keys().empty()) file.fail("", 0, "holds no case", "docs/measuring.md lists tables and keys");
    read_all(file, "plan", cases.plans);
    read_all(file, "product", cases.gemms);
    read_all(file, "attention", cases.attentions);
    read_all(file, "memory", cases.memories);
    read_all(file, "message", cases.messages);
    read_all(file, "collective", cases.collectives);
    read_all(file, "interference", cases.interferences);
    READ_OPTIONAL(file, cases, launch);
  }));
  return cases;
}

CaseFile built_in_cases(int cores) {
  const Numbers counts = powers_up_to(std::max(1, cores));
  CaseFile file;
  file.gemms = {{{16, 64, 256, 1024}, {64, 256, 1024}, {64, 256, 1024}, counts}, {{1, 4}, {512}, {512}, counts}};
  file.attentions = {{{128, 512}, {8}, {32, 64}, counts}};
  file.memories = {{memory_operators(), {64, 512, 2048}, {256, 1024}, counts}};
  file.messages = {{{64, 1024, 16'384, 131'072, 1'048'576, 4'194'304, 16'777'216}}};
  file.collectives = {{{collectives.begin(), collectives.end()}, {2}, {1024, 65'536, 1'048'576, 8'388'608}}};
  if (cores > 1) file.interferences = {{{256, 1024}, {256, 1024}, {256, 1024}, {1}, {1}}};
  return file;
}

}  // namespace plumbline::real::host
