// Commands that change variables, and those that decide what runs next.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/evaluator.h"
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
    const ReadWord read = read_word(node.words[i], false, *this);
    fields.insert(fields.end(), read.fields.begin(), read.fields.end());
  }
  // NAME=VALUE before a command holds for that command alone, which sees it; before none it stays.
  std::vector<std::pair<std::string, std::optional<Fields>>> hidden;
  for (std::size_t i = 0; i < first; ++i) {
    const ReadWord read = read_word(node.words[i], true, *this);
    if (read.name == "IFS" && !fields.empty()) continue;
    const auto old = state_.variables.find(read.name);
    hidden.emplace_back(read.name, old == state_.variables.end() ? std::nullopt : std::optional(old->second));
    assign_word(read);
  }
  if (fields.empty()) return;
  run_words(fields, node);
  for (auto& [name, old] : hidden) {
    state_.variables.erase(name);
    if (old) state_.variables[name] = std::move(*old);
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
  if (!charge(value.empty() ? 0 : value.front().size() + value.size())) return;
  if (word.name.ends_with(']'))
    assign_element(word.name, value.empty() ? Letters() : value.front());
  else
    assign(word.name, std::move(value));
  for (const auto& [name, element] : word.elements) assign_element(name, element);
}

// Sets NAME[KEY]: the list where it has that place or has it next, else the element alone. Then the whole is not known.
void Evaluator::assign_element(const std::string& name, const Letters& value) {
  const std::string list = name.substr(0, name.find('['));
  const auto key = integer(std::string_view(name).substr(list.size() + 1, name.size() - list.size() - 2));
  const Fields* old = find(list);
  Fields fields = old == nullptr ? Fields() : *old;
  const bool listed = key && *key >= 0 && *key <= std::ssize(fields) && std::ranges::all_of(fields, is_known);
  if (!listed) {
    if (inputs_.definitions.contains(list)) return;
    state_.variables[list] = {kept_letters("$" + list, line_)};
    state_.variables[name] = {value};
    open({list, line_, "its keys are no numbers in a row", {}});
    return;
  }
  const auto place = static_cast<std::size_t>(*key);
  if (place == fields.size()) fields.emplace_back();
  fields[place] = value;
  assign(list, std::move(fields));
}

void Evaluator::hide(const std::string& name) {
  if (state_.locals.empty()) return;
  const Fields* old = find(name);
  state_.locals.back().try_emplace(name, old == nullptr ? std::nullopt : std::optional(*old));
}

void Evaluator::declare(const Node& node, std::size_t first, const std::string& kind) {
  const bool is_local = kind == "local" || ((kind == "declare" || kind == "typeset") && !state_.locals.empty());
  bool fixed = kind == "readonly", map = false;
  const auto put = [&](const std::string& name, const std::function<void()>& value) {
    if (is_local) hide(name);
    value();
    if (fixed) readonly_.insert(name);
  };
  for (std::size_t i = first; i < node.words.size() && !stopped(); ++i) {
    const std::string written = text_of(node.words[i]);
    if (map) maps_.insert(written.substr(0, written.find_first_of("[+=")));
    if (is_assignment(node.words[i])) {
      const ReadWord read = read_word(node.words[i], true, *this);
      put(read.name, [&] { assign_word(read); });
      continue;
    }
    for (const Letters& field : read_word(node.words[i], false, *this).fields) {
      const std::string text = text_of(field);
      const std::size_t equals = text.find('=');
      if (text.starts_with('-')) {
        if (text.find_first_of("nilu") != std::string::npos)
          return refuse(node.line, fmt::format("'{} {}'", kind, text));
        fixed = fixed || text.find('r') != std::string::npos;
        map = map || text.find('A') != std::string::npos;
      } else if (!is_known(field)) {
        return refuse(node.line, fmt::format("'{}' of a name that is not known", kind));
      } else {
        put(text.substr(0, equals), [&] {
          if (equals != std::string::npos)
            assign(text.substr(0, equals), {slice(field, equals + 1, field.size())});
          else if (is_local)
            assign(text, {});
        });
      }
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
  if (!run_variables(name, fields, node) && !run_control(name, fields, node) && !run_output(name, fields, node))
    record(fields, node);
}

// Commands that read or change variables; returns whether the command is one.
bool Evaluator::run_variables(const std::string& name, const Fields& fields, const Node& node) {
  if (name == "unset") {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      const std::string word = text_of(fields[i]);
      if (word.starts_with('-')) continue;
      if (word.find('[') != std::string::npos || !is_known(fields[i]))
        forget(word.substr(0, word.find('[')), node.line, "an element of it is unset");
      else
        assign(word, {});
      state_.functions.erase(word);
    }
  } else if (name == "shift") {
    const auto count = fields.size() > 1 ? integer(text_of(fields[1])) : std::optional<std::int64_t>(1);
    const auto all = static_cast<std::int64_t>(state_.parameters.size());
    if (fields.size() > 1 && !is_known(fields[1]) && all > 0)
      refuse(node.line, "'shift' by a number that is not known");
    status_ = truth_of(count && *count >= 0 && *count <= all);
    if (status_ == Truth::yes) state_.parameters.erase(state_.parameters.begin(), state_.parameters.begin() + *count);
  } else if (name == "set") {
    const auto end = std::ranges::find(fields, "--", text_of);
    const bool plain = fields.size() > 1 && text_of(fields[1]).find_first_of("-+") != 0;
    if (plain || end != fields.end()) state_.parameters.assign(plain ? fields.begin() + 1 : end + 1, fields.end());
  } else if (name == "let") {
    for (std::size_t i = 1; i < fields.size(); ++i) run_arithmetic(fields[i]);
  } else if (name == "read" || name == "getopts" || name == "mapfile" || name == "readarray" ||
             (name == "printf" && fields.size() > 2 && text_of(fields[1]) == "-v")) {
    // Each word that may be a name is one.
    for (std::size_t i = 1; i < fields.size(); ++i) {
      const std::string word = text_of(fields[i]);
      if (!word.empty() && begins_name(word[0]) && std::ranges::all_of(word, in_name))
        forget(word, node.line, fmt::format("'{}' sets it", name));
    }
    if (name == "getopts") forget("OPTARG", node.line, "'getopts' sets it");
    if (name == "getopts") forget("OPTIND", node.line, "'getopts' sets it");
    status_ = Truth::unknown;
  } else if (name == "shopt" || name == "alias" || name == "enable") {
    for (const Letters& field : fields)
      if (text_of(field) == "nocasematch" || text_of(field) == "expand_aliases" || name == "enable")
        refuse(node.line, fmt::format("'{}'", node.text));
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
  } else if (name == "exit" || name == "return") {
    if (name == "exit" || (state_.locals.empty() && calls_ <= 1)) {
      flow_ = Flow::end;
      if (out_.exit_line == 0) out_.exit_line = node.line;
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
