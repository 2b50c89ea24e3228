#include "real/host/measure/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "model/base/table_reader.h"
#include "real/host/measure/detail/small_graphs.h"

namespace plumbline::real::host {
namespace {

using model::TableReader;

// One combination of a grid.
struct Point {
  const std::string& op;
  std::vector<std::int64_t> at;  // by axis
  model::Precision format;
};

Workload product_of(const Point& p) { return sequence_of(gemm_graph(p.at[0], p.at[1], p.at[2], p.format), p.at[3]); }

Workload attention_of(const Point& p) {
  return sequence_of(attention_graph(p.at[0], p.at[1], p.at[2], p.format), p.at[3]);
}

Workload memory_of(const Point& p) { return sequence_of(memory_graph(p.op, p.at[0], p.at[1], p.format), p.at[2]); }

Workload message_of(const Point& p) { return MessageWorkload{p.at[0]}; }

constexpr std::array collectives = {model::OperatorKind::all_reduce, model::OperatorKind::reduce_scatter,
                                    model::OperatorKind::all_gather};

Workload collective_of(const Point& p) {
  const auto kind = std::ranges::find(collectives, p.op, [](model::OperatorKind of) { return to_string(of); });
  return CollectiveWorkload{*kind, p.at[0], p.at[1]};
}

// Measures the forward GEMM alone, because one sample under interference needs one kernel.
Workload interference_of(const Point& p) {
  Sequence sequence = std::get<Sequence>(product_of(p));
  std::erase_if(sequence.steps, [&](const auto& step) { return sequence.op(step).phase != model::Phase::F; });
  sequence.communication_sms = static_cast<int>(p.at[4]);
  return sequence;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const model::OperatorKind kind : collectives) names.emplace_back(to_string(kind));
  return names;
}

// What a table of a file may hold.
struct GridForm {
  const char* table;
  std::vector<const char*> needed, optional;  // keys of axes; those left out are 1
  bool has_format;
  Workload (*make)(const Point&);
  std::vector<std::string> operators = {};  // that are known
  const char* unknown_operator = "";
};

const std::vector<GridForm>& grid_forms() {
  static const std::vector<GridForm> forms = {
      {"product", {"m", "n", "k"}, {"cores"}, true, product_of},
      {"attention", {"sequence", "heads", "head_dim"}, {"cores"}, true, attention_of},
      {"memory", {"rows", "columns"}, {"cores"}, true, memory_of, memory_operators(), "not measured alone"},
      {"message", {"bytes"}, {}, false, message_of},
      {"collective", {"ranks", "bytes"}, {}, false, collective_of, collective_names(), "no collective"},
      {"interference", {"m", "n", "k"}, {"cores", "copy_cores"}, false, interference_of}};
  return forms;
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

void read_operators(TableReader& table, const GridForm& form, std::vector<std::string>& words) {
  words = table.text_or_texts("operators");
  for (const std::string& word : words)
    if (std::ranges::find(form.operators, word) == form.operators.end())
      table.fail("operators", table.line_of("operators"), fmt::format("'{}' is {}", word, form.unknown_operator),
                 model::did_you_mean(word, form.operators, fmt::format("known: {}", fmt::join(form.operators, ", "))));
}

void read(TableReader& table, const GridForm& form, Grid& grid) {
  grid.table = form.table;
  if (!form.operators.empty()) read_operators(table, form, grid.operators);
  for (const char* key : form.needed) table.required(key, grid.axes.emplace_back());
  for (const char* key : form.optional) table.optional(key, grid.axes.emplace_back(Numbers{1}));
  if (form.has_format) read_format(table, grid.format);
}

void read(TableReader& table, PlanCases& cases) {
  cases.line = table.line();
  cases.plan = table.text("plan");
  if (table.has("set")) cases.set = table.text_or_texts("set");
  READ_OPTIONAL(table, cases, cores);
}

// Calls make with all combinations of the axes, of which the last varies fastest.
template <class Make>
void combine(const std::vector<Numbers>& axes, std::vector<std::int64_t>& at, const Make& make) {
  if (at.size() == axes.size()) return make();
  for (const std::int64_t value : axes[at.size()]) {
    at.push_back(value);
    combine(axes, at, make);
    at.pop_back();
  }
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
  for (const Grid& grid : file.grids) {
    const auto form = std::ranges::find(grid_forms(), grid.table, &GridForm::table);
    for (const std::string& op : grid.operators.empty() ? std::vector<std::string>(1) : grid.operators) {
      Point point{op, {}, grid.format};
      combine(grid.axes, point.at, [&] { workloads.push_back(form->make(point)); });
    }
  }
  if (file.launch) workloads.emplace_back(LaunchWorkload{});
  return workloads;
}

model::Result<CaseFile> parse_cases(std::string_view text, const std::string& path) {
  CaseFile cases;
  TRY(model::read_table_text(text, path, [&cases](TableReader& file) {
    if (file.keys().empty()) file.fail("", 0, "holds no case", "docs/measuring.md lists tables and keys");
    file.optional_tables("plan", [&](TableReader& table) { read(table, cases.plans.emplace_back()); });
    for (const GridForm& form : grid_forms())
      file.optional_tables(form.table, [&](TableReader& table) { read(table, form, cases.grids.emplace_back()); });
    READ_OPTIONAL(file, cases, launch);
  }));
  return cases;
}

CaseFile built_in_cases(int cores) {
  const Numbers counts = powers_up_to(std::max(1, cores));
  CaseFile file;
  file.grids = {{"product", {}, {{16, 64, 256, 1024}, {64, 256, 1024}, {64, 256, 1024}, counts}},
                {"product", {}, {{1, 4}, {512}, {512}, counts}},
                {"attention", {}, {{128, 512}, {8}, {32, 64}, counts}},
                {"memory", memory_operators(), {{64, 512, 2048}, {256, 1024}, counts}},
                {"message", {}, {{64, 1024, 16'384, 131'072, 1'048'576, 4'194'304, 16'777'216}}},
                {"collective", collective_names(), {{2}, {1024, 65'536, 1'048'576, 8'388'608}}}};
  if (cores > 1) file.grids.push_back({"interference", {}, {{256, 1024}, {256, 1024}, {256, 1024}, {1}, {1}}});
  return file;
}

}  // namespace plumbline::real::host
