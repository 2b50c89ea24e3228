#include <fmt/format.h>

#include <sstream>

#include "model/base/table_reader.h"
#include "model/base/text_file.h"
#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real {
namespace {

using model::Result;
using Cases = std::vector<KernelCase>;

constexpr const char* form_hint =
    "write [[case]] tables with op = \"gemm\", m = 4096, ...; docs/measuring.md lists the keys";

Result<Cases> cases_in_tables(const std::string& path) {
  Cases found;
  TRY(model::read_table_file(path, [&found](model::TableReader& file) {
    if (file.keys().empty()) file.fail("case", 0, "holds no case", form_hint);
    file.optional_tables("case", [&found](model::TableReader& table) {
      std::string text = table.text("op");
      for (const std::string& key : table.keys())
        if (key != "op") text += fmt::format(" {}={}", key, table.word(key));
      const auto parsed = parse_kernel_case(text);
      if (!parsed) return table.fail("", table.line(), parsed.error().message, "");
      found.push_back(*parsed);
    });
  }));
  return found;
}

Result<Cases> cases_in_lines(const std::string& text, const std::string& path) {
  Cases found;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string plain = line.substr(0, line.find('#'));
    if (plain.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto parsed = parse_kernel_case(plain);
    if (!parsed)
      return model::wrong_input_at(path, number, "", parsed.error().message,
                                   "docs/measuring.md lists operations and keys");
    found.push_back(*parsed);
  }
  return found;
}

}  // namespace

Result<Cases> read_case_file(const std::string& path) {
  if (path.ends_with(".toml")) return cases_in_tables(path);
  if (!path.ends_with(".cases"))
    return model::wrong_input_at(path, 0, "", "not a case file", "its name ends in .toml or .cases");
  return cases_in_lines(TRY(model::read_text_file(path)), path);
}

}  // namespace plumbline::real
