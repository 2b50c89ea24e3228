#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <sstream>
#include <string_view>
#include <utility>

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

using Words = std::vector<std::string>;  // an operation, then KEY=VALUE each

std::string key_of(const std::string& word) { return word.substr(0, word.find('=')); }

// Returns the value of a key; empty without one.
std::string value_of(const Words& words, std::string_view key) {
  const auto found = std::ranges::find(words, key, key_of);
  return found == words.end() ? "" : found->substr(std::min(found->size(), key.size() + 1));
}

// The shapes of a file: what the names of cases stand for.
class Shapes {
 public:
  void add(Words words) { shapes_.push_back(std::move(words)); }

  // Returns the words of each case that a line stands for. Of the listed values the last ones vary fastest.
  std::vector<Words> cases_of(const Words& line) const {
    std::vector<Words> cases = {{line.front()}};
    for (const std::string& word : line | std::views::drop(1)) {
      std::vector<Words> longer;
      for (const Words& begun : cases)
        for (const std::string& one : each_of(line.front(), word)) {
          longer.push_back(begun);
          longer.back().push_back(one);
        }
      cases = std::move(longer);
    }
    for (Words& words : cases) complete(words);
    return cases;
  }

 private:
  // Returns KEY=VALUE for each value that the word lists. A pattern without a shape stands for itself.
  Words each_of(const std::string& operation, const std::string& word) const {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return {word};
    Words found;
    for (const auto part : std::views::split(std::string_view(word).substr(equals + 1), ',')) {
      const std::string value(part.begin(), part.end());
      const std::size_t before = found.size();
      for (const Words& shape : shapes_)
        if (const std::string name = value_of(shape, "name");
            value.ends_with('*') && shape.front() == operation && name.starts_with(value.substr(0, value.size() - 1)))
          found.push_back("name=" + name);
      if (found.size() == before) found.push_back(word.substr(0, equals + 1) + value);
    }
    return found;
  }

  // Adds what the name stands for and the case does not state.
  void complete(Words& words) const {
    const bool partition = words.front() == "partition";
    const std::string name = value_of(words, "name"), kernel = value_of(words, "kernel");
    const auto shape = std::ranges::find_if(shapes_, [&](const Words& of) {
      return value_of(of, "name") == name &&
             (of.front() == (partition ? kernel : words.front()) || (partition && kernel.empty()));
    });
    if (name.empty() || shape == shapes_.end()) return;
    if (partition && kernel.empty()) words.push_back("kernel=" + shape->front());
    for (const std::string& word : *shape | std::views::drop(1))
      if (std::ranges::find(words, key_of(word), key_of) == words.end()) words.push_back(word);
    if (shape->front() == "gemm") turn(words);
  }

  // Makes sizes of a forward GEMM those of its phase: dx[m,k] is a sum over n, dw[n,k] one over m.
  static void turn(Words& words) {
    static const std::map<std::string, std::map<std::string, std::string>> turned = {
        {"I", {{"n", "k"}, {"k", "n"}}}, {"W", {{"m", "k"}, {"n", "m"}, {"k", "n"}}}};
    const auto of_phase = turned.find(value_of(words, "phase"));
    if (of_phase == turned.end()) return;
    for (std::string& word : words)
      if (const auto to = of_phase->second.find(key_of(word)); to != of_phase->second.end())
        word.replace(0, to->first.size(), to->second);
  }

  std::vector<Words> shapes_;
};

Result<Cases> cases_in_lines(const std::string& text, const std::string& path) {
  Cases found;
  Shapes shapes;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    std::istringstream plain(line.substr(0, line.find('#')));
    const Words words{std::istream_iterator<std::string>(plain), {}};
    if (words.empty()) continue;
    if (words.front() == "shape" && words.size() > 1) {
      shapes.add({words.begin() + 1, words.end()});
      continue;
    }
    for (const Words& one : shapes.cases_of(words)) {
      const auto parsed = parse_kernel_case(fmt::format("{}", fmt::join(one, " ")));
      if (!parsed)
        return model::wrong_input_at(path, number, "", parsed.error().message,
                                     "docs/measuring.md lists operations and keys");
      found.push_back(*parsed);
    }
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
