// Commands that change variables, and those that decide what runs next.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/evaluator.h"
#include "model/megatron/shell/detail/patterns.h"
#include "model/megatron/shell/detail/scan.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::array<std::string_view, 5> declarations = {"export", "local", "readonly", "declare", "typeset"};
constexpr std::array<std::string_view, 4> wrappers = {"exec", "command", "builtin", "nohup"};

bool is_declaration(const Letters& word) {
  return std::ranges::find(declarations, text_of(word)) != declarations.end();
}

// Whether the word as it is written is an assignment.
bool is_assignment(const Letters& word) {
  if (word.empty() || !begins_name(word[0].symbol)) return false;
  std::size_t end = 0;
  while (end < word.size() && in_name(word[end].symbol)) ++end;
  if (end < word.size() && word[end].symbol == '[') end = Scan(word).brackets(end, '[', ']');
  if (end < word.size() && word[end].symbol == '+') ++end;
  return end < word.size() && word[end].symbol == '=';
}

}  // namespace

void Evaluator::run_command(const Node& node) {
  std::size_t first = 0;
  while (first < node.words.size() && is_assignment(node.words[first])) ++first;
  status_ = Truth::yes;
  if (first == node.words.size()) {
    for (const Letters& word : node.words) assign_word(read_word(word, true, *this));
    return;
  }
  if (is_declaration(node.words[first])) {
    for (std::size_t i = 0; i < first; ++i) assign_word(read_word(node.words[i], true, *this));
    return declare(node, first + 1, text_of(node.words[first]));
  }
  Fields fields;
  for (std::size_t i = first; i < node.words.size(); ++i) {
    for (const Letters& word : with_braces(node.words[i])) {
      const ReadWord read = read_word(word, false, *this);
      fields.insert(fields.end(), read.fields.begin(), read.fields.end());
    }
  }
  // NAME=VALUE before a command holds for that command alone, which sees it.
  std::vector<std::pair<std::string, std::optional<Fields>>> hidden;
  const auto exported = state_.exported;
  for (std::size_t i = 0; i < first; ++i) {
    const ReadWord read = read_word(node.words[i], true, *this);
    const Fields* old = find(read.name);
    hidden.emplace_back(read.name, old == nullptr ? std::nullopt : std::optional(*old));
    assign_word(read);
    state_.exported.insert(read.name);
  }
  if (!fields.empty()) run_words(fields, node);
  if (first > 0) state_.exported = exported;
  for (auto& [name, old] : hidden) {
    if (old)
      state_.variables[name] = std::move(*old);
    else
      state_.variables.erase(name);
  }
}

void Evaluator::assign_word(const ReadWord& word) {
  if (!word.assignment) return;
  Fields value = word.fields;
  const Fields* old = word.append ? find(word.name) : nullptr;
  if (old != nullptr && word.list) {
    value.insert(value.begin(), old->begin(), old->end());
  } else if (old != nullptr && !old->empty()) {
    Fields longer = *old;
    for (const Letters& field : word.fields) longer[0].insert(longer[0].end(), field.begin(), field.end());
    value = std::move(longer);
  }
  if (charge(value.empty() ? 0 : value.front().size() + value.size())) assign(word.name, std::move(value));
}

void Evaluator::hide(const std::string& name) {
  if (state_.locals.empty()) return;
  const Fields* old = find(name);
  state_.locals.back().try_emplace(name, old == nullptr ? std::nullopt : std::optional(*old));
}

void Evaluator::declare(const Node& node, std::size_t first, const std::string& kind) {
  const bool is_local = kind == "local" || ((kind == "declare" || kind == "typeset") && !state_.locals.empty());
  bool exports = kind == "export";
  for (std::size_t i = first; i < node.words.size() && !stopped(); ++i) {
    if (is_assignment(node.words[i])) {
      const ReadWord read = read_word(node.words[i], true, *this);
      if (is_local) hide(read.name);
      assign_word(read);
      if (exports) state_.exported.insert(read.name);
      continue;
    }
    for (const Letters& field : read_word(node.words[i], false, *this).fields) {
      const std::string text = text_of(field);
      const std::size_t equals = text.find('=');
      if (text.starts_with('-')) {
        exports = exports || text.find('x') != std::string::npos;
        continue;
      }
      if (is_local) hide(text.substr(0, equals));
      if (exports) state_.exported.insert(text.substr(0, equals));
      if (equals != std::string::npos)
        assign(text.substr(0, equals), {slice(field, equals + 1, field.size())});
      else if (is_local)
        assign(text, {});
    }
  }
}

void Evaluator::run_words(const Fields& fields, const Node& node) {
  const std::string name = text_of(fields[0]);
  if (std::ranges::find(wrappers, name) != wrappers.end() && fields.size() > 1) {
    run_words({fields.begin() + 1, fields.end()}, node);
    if (name == "exec" && flow_ == Flow::none) flow_ = Flow::end;
    return;
  }
  if (const auto function = state_.functions.find(name); function != state_.functions.end())
    return run_function(*function->second, fields, node.line);
  if (run_variables(name, fields, node) || run_control(name, fields, node) || run_text(name, fields, node)) return;
  record(fields, node);
}

// Commands that read or change variables; returns whether the command is one.
bool Evaluator::run_variables(const std::string& name, const Fields& fields, const Node& node) {
  if (name == "unset") {
    for (std::size_t i = 1; i < fields.size(); ++i)
      if (text_of(fields[i])[0] != '-') assign(text_of(fields[i]), {});
  } else if (name == "shift") {
    const auto count = fields.size() > 1 ? integer(text_of(fields[1])) : std::optional<std::int64_t>(1);
    const auto all = static_cast<std::int64_t>(state_.parameters.size());
    status_ = truth_of(count && *count >= 0 && *count <= all);
    if (status_ == Truth::yes) state_.parameters.erase(state_.parameters.begin(), state_.parameters.begin() + *count);
  } else if (name == "set") {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      const std::string word = text_of(fields[i]);
      const bool all = word.size() > 1 && word[1] != '-' && word.find('a') != std::string::npos;
      if (all && (word[0] == '-' || word[0] == '+')) state_.exports_all = word[0] == '-';
      if (word != "--") continue;
      state_.parameters.assign(fields.begin() + static_cast<std::ptrdiff_t>(i) + 1, fields.end());
      break;
    }
  } else if (name == "let") {
    for (std::size_t i = 1; i < fields.size(); ++i) run_arithmetic(fields[i]);
  } else if (name == "getopts") {
    run_options(fields);
  } else if (name == "read") {
    run_read(fields, node);
  } else {
    return false;
  }
  return true;
}

bool Evaluator::run_control(const std::string& name, const Fields& fields, const Node& node) {
  if (name == "[" || name == "test") {
    std::vector<Letters> words(fields.begin() + 1, fields.end());
    if (name == "[" && !words.empty()) words.pop_back();
    status_ = evaluate_condition(words, false, *this, inputs_);
    if (status_ == Truth::unknown)
      for (const Letters& word : words) unknown_ += text_of(word) + " ";
  } else if (name == "exit" || name == "return") {
    if (name == "exit" || (state_.locals.empty() && calls_ <= 1)) {
      flow_ = Flow::end;
      if (out_.exit_line == 0 && trying_ == 0) out_.exit_line = node.line;
    } else {
      flow_ = Flow::give_back;
    }
    status_ = truth_of(fields.size() < 2 || text_of(fields[1]) == "0");
  } else if (name == "break" || name == "continue") {
    flow_ = name == "break" ? Flow::leave : Flow::next;
    levels_ = fields.size() > 1 ? static_cast<int>(integer(text_of(fields[1])).value_or(1) % 100) : 1;
  } else if (name == "eval") {
    run_script(joined(fields, 1), node.line);
  } else if (name == "source" || name == ".") {
    run_source(fields, node.line);
  } else if (name == "true" || name == ":") {
    status_ = Truth::yes;
  } else if (name == "false") {
    status_ = Truth::no;
  } else {
    return false;
  }
  return true;
}

}  // namespace plumbline::model::megatron
