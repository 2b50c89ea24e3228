#include "real/host/measure/case_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/base/text_file.h"
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

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = model::nearest_name(name, known);
  return nearest.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                         : fmt::format("did you mean '{}'?", nearest);
}

// Reads the keys of one table and keeps the first error.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string name, const std::string& path)
      : table_(table), name_(std::move(name)), path_(path) {}

  void required(const char* key, Numbers& field) { take(key, field, true); }
  void optional(const char* key, Numbers& field) { take(key, field, false); }
  void take(const char* key, Numbers& field, bool needed) {
    each(key, needed, [&](const toml::node& node, bool first) {
      const auto number = node.value_exact<std::int64_t>();
      if (!number || *number < 1) return fail(node, key, "expected whole numbers above 0");
      if (first) field.clear();
      field.push_back(*number);
    });
  }
  template <class Parse>
  void words(const char* key, bool needed, Parse parse) {
    each(key, needed, [&](const toml::node& node, bool) {
      const auto word = node.value_exact<std::string>();
      word ? parse(node, *word) : fail(node, key, "expected words in quotes");
    });
  }
  void format(model::Precision& field) {
    words("format", false, [&](const toml::node& node, const std::string& word) {
      const auto parsed = model::parse_precision(word);
      const bool computed = parsed && (*parsed == model::Precision::fp32 || *parsed == model::Precision::bf16 ||
                                       *parsed == model::Precision::fp16);
      if (!computed) return fail(node, "format", fmt::format("the host computes no '{}'", word), "fp32, bf16 or fp16");
      field = *parsed;
    });
  }
  void fail(const toml::node& node, const std::string& key, std::string message, std::string hint = "") {
    if (!error_.message.empty()) return;
    error_ = {model::ErrorKind::input,          std::move(message), path_, line_of(node),
              fmt::format("{}.{}", name_, key), std::move(hint)};
  }
  // Call it after all keys have been read.
  model::Result<void> finish() {
    for (const auto& [key, node] : table_)
      if (std::ranges::find(known_, key.str()) == known_.end())
        fail(node, std::string(key.str()), "unknown key", suggestion(key.str(), known_));
    return error_.message.empty() ? model::Result<void>() : tl::unexpected(error_);
  }

 private:
  // Accepts a single value as a list of one.
  template <class Use>
  void each(const char* key, bool needed, Use use) {
    known_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr && needed) fail(table_, key, "required key is missing");
    if (node == nullptr) return;
    const toml::array* list = node->as_array();
    if (list == nullptr) return use(*node, true);
    if (list->empty()) return fail(*node, key, "an empty list");
    bool first = true;
    for (const toml::node& item : *list) use(item, std::exchange(first, false));
  }

  const toml::table& table_;
  std::string name_;
  const std::string& path_;
  std::vector<std::string> known_;
  model::Error error_;
};

void read(TableReader& reader, const toml::table& table, PlanCases& cases) {
  cases.line = line_of(table);
  reader.words("plan", true, [&](const toml::node&, const std::string& word) { cases.plan = word; });
  reader.words("set", false, [&](const toml::node&, const std::string& word) { cases.set.push_back(word); });
  reader.optional("cores", cases.cores);
}

void read(TableReader& reader, const toml::table&, GemmCases& cases) {
  reader.required("m", cases.m);
  reader.required("n", cases.n);
  reader.required("k", cases.k);
  reader.optional("cores", cases.cores);
  reader.format(cases.format);
}

void read(TableReader& reader, const toml::table&, AttentionCases& cases) {
  reader.required("sequence", cases.sequence);
  reader.required("heads", cases.heads);
  reader.required("head_dim", cases.head_dim);
  reader.optional("cores", cases.cores);
  reader.format(cases.format);
}

void read(TableReader& reader, const toml::table&, MemoryCases& cases) {
  reader.words("operators", true, [&](const toml::node& node, const std::string& word) {
    const std::vector<std::string> known = memory_operators();
    if (std::ranges::find(known, word) == known.end())
      return reader.fail(node, "operators", fmt::format("'{}' is not measured alone", word), suggestion(word, known));
    cases.operators.push_back(word);
  });
  reader.required("rows", cases.rows);
  reader.required("columns", cases.columns);
  reader.optional("cores", cases.cores);
  reader.format(cases.format);
}

void read(TableReader& reader, const toml::table&, MessageCases& cases) { reader.required("bytes", cases.bytes); }

void read(TableReader& reader, const toml::table&, CollectiveCases& cases) {
  reader.words("operators", true, [&](const toml::node& node, const std::string& word) {
    std::vector<std::string> known;
    for (const model::OperatorKind kind : collectives) {
      known.emplace_back(to_string(kind));
      if (word == known.back()) return cases.operators.push_back(kind);
    }
    reader.fail(node, "operators", fmt::format("'{}' is no collective", word), suggestion(word, known));
  });
  reader.required("ranks", cases.ranks);
  reader.required("bytes", cases.bytes);
}

void read(TableReader& reader, const toml::table&, InterferenceCases& cases) {
  reader.required("m", cases.m);
  reader.required("n", cases.n);
  reader.required("k", cases.k);
  reader.optional("cores", cases.cores);
  reader.optional("copy_cores", cases.communication_sms);
}

class FileReader {
 public:
  explicit FileReader(const std::string& path) : path_(path) {}

  model::Result<CaseFile> run(const toml::table& root) {
    CaseFile file;
    const bool read_all = tables(root, "plan", file.plans) && tables(root, "product", file.gemms) &&
                          tables(root, "attention", file.attentions) && tables(root, "memory", file.memories) &&
                          tables(root, "message", file.messages) && tables(root, "collective", file.collectives) &&
                          tables(root, "interference", file.interferences) && launch(root, file.launch);
    if (!read_all) return tl::unexpected(error_);
    for (const auto& [key, node] : root)
      if (std::ranges::find(known_, key.str()) == known_.end())
        return tl::unexpected(
            problem(line_of(node), std::string(key.str()), "unknown key", suggestion(key.str(), known_)));
    if (root.empty())
      return tl::unexpected(problem(0, "", "holds no case", fmt::format("{}", fmt::join(known_, ", "))));
    return file;
  }

  model::Error problem(int line, std::string key, std::string message, std::string hint) const {
    return {model::ErrorKind::input, std::move(message), path_, line, std::move(key), std::move(hint)};
  }

 private:
  template <class Cases>
  bool tables(const toml::table& root, const char* name, std::vector<Cases>& cases) {
    known_.emplace_back(name);
    const toml::node* node = root.get(name);
    if (node == nullptr) return true;
    const toml::array* list = node->as_array();
    const bool all_tables = list != nullptr && list->is_homogeneous(toml::node_type::table);
    if (!all_tables) {
      error_ = problem(line_of(*node), name, "expected tables", fmt::format("write [[{}]]", name));
      return false;
    }
    for (const toml::node& item : *list) {
      TableReader reader(*item.as_table(), name, path_);
      read(reader, *item.as_table(), cases.emplace_back());
      if (const auto finished = reader.finish(); !finished) {
        error_ = finished.error();
        return false;
      }
    }
    return true;
  }

  bool launch(const toml::table& root, bool& field) {
    known_.emplace_back("launch");
    const toml::node* node = root.get("launch");
    if (node == nullptr) return true;
    if (node->is_boolean()) field = **node->as_boolean();
    if (!node->is_boolean()) error_ = problem(line_of(*node), "launch", "expected true or false", "");
    return node->is_boolean();
  }

  const std::string& path_;
  std::vector<std::string> known_;
  model::Error error_;
};

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
  TRY(model::check_nesting(text, path));
  FileReader reader(path);
  try {
    return reader.run(toml::parse(text, path));
  } catch (const toml::parse_error& failure) {
    return tl::unexpected(reader.problem(static_cast<int>(failure.source().begin.line), "",
                                         std::string(failure.description()),
                                         "docs/measuring.md lists tables and keys"));
  }
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
