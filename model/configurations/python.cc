// Configurations as entries of Python, as registries are written in it: literals, brackets, calls with keywords,
// assignments and branches.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <span>

#include "model/base/text.h"
#include "model/configurations/configuration.h"
#include "model/configurations/detail/python_text.h"
#include "model/configurations/detail/python_value.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

constexpr std::string_view kAsked = "_asked_for";

class PythonReader : private PythonText {
 public:
  explicit PythonReader(const Source& source)
      : PythonText(source.text), source_(source), out_(source.path, source.renames), modules_(source.modules.size()) {
    for (std::size_t at = 0; at < text_.size(); ++at)
      if (text_[at] == '\n') newlines_.push_back(at);
  }

  Result<Configuration> read() && {
    split_statements();
    std::vector<std::string> names;
    for (const auto& [name, statement] : modules_.back().functions) {
      const auto [begin, end, indent] = statements_[statement];
      const bool returns = text_.substr(begin, end - begin).find("-> None") == std::string_view::npos;
      if (returns && module_at(begin) + 1 == modules_.size()) names.push_back(name);
    }
    const auto helps = [](const std::string& name) { return name.starts_with('_'); };
    if (!std::ranges::all_of(names, helps)) std::erase_if(names, helps);
    const std::string wanted = source_.function.empty() && names.size() == 1 ? names.front() : source_.function;
    const auto function = modules_.back().functions.find(wanted);
    if (function == modules_.back().functions.end())
      return wrong_input_at(source_.path, 0, "",
                            wanted.empty() ? fmt::format("holds {} configurations", names.size())
                                           : fmt::format("has no configuration '{}'", wanted),
                            fmt::format("--config NAME takes one of {}", fmt::join(names, ", ")));
    for (const Statement& statement : statements_) {
      if (statement.indent > 0) continue;
      const std::size_t module = module_at(statement.begin);
      execute(statement, modules_[module].globals);
      if (module + 1 < modules_.size()) unread_.clear();
    }
    PythonValue root = run(function->second, {});
    // A function of a file that is not read may change the configuration that it is given first.
    while (root.kind == PythonValue::Kind::call && root.fields != nullptr && root.fields->empty() &&
           !root.items.empty() && root.items.front().fields != nullptr) {
      unread_.emplace_back(root.line, fmt::format("{}(...)", root.text));
      root = PythonValue(root.items.front());
    }
    if (root.kind != PythonValue::Kind::call && !out_.failed())
      return wrong_input_at(source_.path, root.line, wanted, "returns no configuration that is read",
                            "nothing is run: calls with keywords and assignments are read");
    out_.add({"", "def", wanted, {}, line_at(statements_[function->second].begin)}, false);
    flatten(root, "", 0);
    for (const auto& [line, text] : unread_) out_.add({"", fmt::format("'{}'", text), text, {}, line}, true);
    return std::move(out_).result();
  }

 private:
  struct Statement {
    std::size_t begin, end;
    std::size_t indent;
  };
  using Scope = std::map<std::string, PythonValue, std::less<>>;
  // The functions of a file, its own and those that it imports, by their statement, and its first level.
  struct Module {
    std::map<std::string, std::size_t, std::less<>> functions;
    Scope globals;
  };

  // Returns the field of that name, which is new if there is none.
  PythonValue& field(PythonValue& value, const std::string& name) {
    if (PythonValue* found = find_field(value, name)) return *found;
    if (value.fields == nullptr) value.fields = &objects_.emplace_back();
    PythonValue made{PythonValue::Kind::call, "", value.line};
    made.fields = &objects_.emplace_back();
    return value.fields->emplace_back(name, std::move(made)).second;
  }

  std::size_t module_at(std::size_t at) const {
    const auto next = std::ranges::upper_bound(source_.modules, at, {}, &PythonModule::begin);
    return static_cast<std::size_t>(next - source_.modules.begin()) - 1;
  }
  // Returns the line in the file itself; 0 in those that it imports.
  int line_at(std::size_t at) const {
    const std::size_t own = source_.modules.back().begin;
    const auto lines_before = [this](std::size_t place) { return std::ranges::lower_bound(newlines_, place); };
    return at < own ? 0 : static_cast<int>(lines_before(at) - lines_before(own)) + 1;
  }
  void split_statements() {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t begin = std::min(text_.find_first_not_of(" \t\r", at), text_.size());
      const std::size_t end = find_outside(begin, text_.size(), "\n");
      const std::string_view statement = text_.substr(begin, end - begin);
      if (begin == at && statement.starts_with("def "))
        modules_[module_at(begin)].functions[std::string(trimmed(statement.substr(4, statement.find('(') - 4)))] =
            statements_.size();
      if (!statement.empty() && statement.front() != '#') statements_.push_back({begin, end, begin - at});
      at = end + 1;
    }
  }

  // Calls visit(name, other) for every name that "from MODULE import name as other" gives a module.
  template <class Visitor>
  static void visit_names(std::string_view statement, Visitor&& visit) {
    const std::size_t import = statement.find(" import ");
    if (!statement.starts_with("from ") || import == std::string_view::npos) return;
    std::string list(statement.substr(import + 8));
    std::ranges::replace_if(
        list, [](char one) { return std::string_view("()\\\n\t").find(one) != std::string::npos; }, ' ');
    for (const std::string_view part : split_at(list, ',')) {
      const std::string_view name = trimmed(part.substr(0, part.find(" as ")));
      const std::size_t as = part.find(" as ");
      if (!name.empty()) visit(name, as == std::string_view::npos ? name : trimmed(part.substr(as + 4)));
    }
  }

  // Gives a module the functions, and a scope of it the names, that a statement imports from a file that is read too. A
  // function of its own hides one of that name.
  void import_names(std::string_view text, std::size_t module, Scope& scope) {
    if (!text.starts_with("from ")) return;
    const auto from = source_.modules[module].imports.find(trimmed(text.substr(5, text.find(" import ") - 5)));
    if (from == source_.modules[module].imports.end()) return;
    const Module& other = modules_[from->second];
    visit_names(text, [&](std::string_view name, std::string_view as) {
      if (name == "*") {
        modules_[module].functions.insert(other.functions.begin(), other.functions.end());
        for (const auto& [global, value] : other.globals) scope.insert_or_assign(global, value);
      }
      if (const auto function = other.functions.find(name); function != other.functions.end()) {
        const auto known = modules_[module].functions.emplace(as, function->second).first;
        if (module_at(statements_[known->second].begin) != module) known->second = function->second;
      }
      if (const auto global = other.globals.find(name); global != other.globals.end())
        scope.insert_or_assign(std::string(as), global->second);
    });
  }

  std::optional<std::size_t> find_function(std::string_view name) const {
    const auto& functions = modules_[module_at(pos_)].functions;
    const auto found = functions.find(name);
    return found == functions.end() ? std::nullopt : std::optional(found->second);
  }

  // Returns the name of the models whose package a module imports one of torchtitan's functions from.
  std::string package_of(std::size_t module, std::string_view function) const {
    std::string package = "an unknown package";
    for (const Statement& statement : statements_) {
      if (module_at(statement.begin) != module) continue;
      const std::string_view text = text_.substr(statement.begin, statement.end - statement.begin);
      visit_names(text, [&](std::string_view, std::string_view as) {
        if (as != function) return;
        const std::string_view name = trimmed(text.substr(5, text.find(" import ") - 5));
        package = name == "." ? source_.modules[module].package : std::string(name.substr(name.rfind('.') + 1));
      });
    }
    return package;
  }

  // Gives the parameters of a function the values of a call, or their defaults.
  void bind(const Statement& head, const PythonValue& given, Scope& scope) {
    pos_ = std::min(text_.find('(', head.begin), head.end - 1) + 1, end_ = head.end;
    std::size_t position = 0;
    for (skip_space(); pos_ < end_ && letter() != ')'; skip_space()) {
      if (letter() == '*') position = given.items.size();  // what follows is given by name
      while (letter() == '*') ++pos_;
      const std::string name = take_path().front();
      if (letter() == ':') pos_ = find_outside(pos_, end_, "=,)");
      PythonValue value{PythonValue::Kind::unread, name, line_at(pos_)};
      if (takes_assignment()) value = expression(scope);
      if (position < given.items.size())
        value = given.items[position++];
      else if (const PythonValue* named = find_field(given, name))
        value = *named;
      if (!may_add(value.size, value.line)) return;
      if (!name.empty()) scope[name] = std::move(value);
      if (letter() != ',') return;
      ++pos_;
    }
  }

  // Returns what the function that a statement defines returns, for a call with these arguments.
  PythonValue run(std::size_t function, const PythonValue& given) {
    const auto [begin, end] = std::pair(pos_, end_);
    const Scope& globals = modules_[module_at(statements_[function].begin)].globals;
    for (const auto& [global, value] : globals)
      if (!may_add(value.size, value.line)) return {};
    Scope scope = globals;
    bind(statements_[function], given, scope);
    run_block(function + 1, 0, scope);
    pos_ = begin, end_ = end;
    return std::move(scope["return"]);
  }

  // Executes the statements from `first` that are indented alike and more than `outside`, with those of branches whose
  // condition is decided; returns whether one returns. What is left of a chain with a condition that is not decided is
  // listed, and so is a branch on the line of its condition.
  bool run_block(std::size_t first, std::size_t outside, Scope& scope) {
    const std::size_t indent = first < statements_.size() ? statements_[first].indent : 0;
    if (indent <= outside || !out_.enter(depth_, line_at(statements_[first].begin))) return false;
    enum class Chain { open, taken, unknown };
    Chain chain = Chain::unknown;
    ++depth_;
    bool returns = false;
    for (std::size_t i = first; i < statements_.size() && statements_[i].indent >= indent && !returns; ++i) {
      if (statements_[i].indent > indent) continue;
      const auto [begin, end, _] = statements_[i];
      const std::string_view text = text_.substr(begin, end - begin);
      const std::string_view word = text.substr(0, text.find_first_of(" :"));
      const bool begins = word == "if" || word == "try";
      if (!begins && word != "elif" && word != "else" && word != "except") {
        returns = execute(statements_[i], scope);
        chain = Chain::unknown;
        continue;
      }
      if (begins) chain = Chain::open;
      if (word == "except" && chain == Chain::taken) {  // nothing is raised, which else follows
        chain = Chain::open;
      } else if (chain == Chain::open) {
        const auto holds = is_true(begin + word.size(), end, scope);
        if (holds.value_or(false)) returns = run_block(i + 1, indent, scope);
        if (!holds || *holds) chain = holds ? Chain::taken : Chain::unknown;
      }
      if (chain == Chain::unknown) execute(statements_[i], scope);
    }
    --depth_;
    return returns;
  }

  // Returns whether the condition up to the colon of a statement holds, as that of else and try does, which have none;
  // nothing where it is not decided.
  std::optional<bool> is_true(std::size_t begin, std::size_t end, Scope& scope) {
    const std::size_t colon = find_outside(begin, end, ":");
    const std::string_view behind = trimmed(text_.substr(std::min(colon + 1, end), end - std::min(colon + 1, end)));
    if (!behind.empty() && behind.front() != '#') return std::nullopt;  // a branch on the same line
    if (trimmed(text_.substr(begin, colon - begin)).empty()) return true;
    pos_ = begin, end_ = colon;
    return truth(whole_expression(scope));
  }

  // Returns whether a statement returns; its value is then "return" of the scope.
  bool execute(const Statement& statement, Scope& scope) {
    const std::string_view text = text_.substr(statement.begin, statement.end - statement.begin);
    import_names(text, module_at(statement.begin), scope);
    for (const std::string_view word : {"def ", "class ", "assert ", "from ", "import ", "if __name__", "\"", "'", "@"})
      if (text.starts_with(word)) return false;
    if (!may_add(1, line_at(statement.begin))) return true;
    pos_ = statement.begin, end_ = statement.end;
    const std::vector<std::string> path = take_path();
    if (path.front() == "return") {
      scope["return"] = whole_expression(scope);
      return true;
    }
    constexpr std::string_view blocks[] = {"else", "try", "finally"};  // what follows their : is no type
    if (letter() == ':' && std::ranges::find(blocks, path.front()) == std::end(blocks))
      pos_ = find_outside(pos_, end_, "=");
    // A function that is read changes what it is given; what it returns is dropped.
    if (path.size() == 1 && letter() == '(' && find_function(path.front())) {
      pos_ = statement.begin;
      whole_expression(scope);
      return false;
    }
    if (letter() == '(' && lengthens(path, scope)) return false;
    std::vector<std::string> others;  // names that get what a function returns after the first
    for (; path.size() == 1 && letter() == ','; skip_space()) {
      ++pos_;
      skip_space();
      others.push_back(take_path().front());
    }
    const auto object = path.size() > 1 ? scope.find(path.front()) : scope.end();
    const bool known = object != scope.end() && object->second.kind != PythonValue::Kind::unread;
    if (!takes_assignment() || path.front().empty() || std::ssize(path) > kDeepest || (path.size() > 1 && !known)) {
      unread_.emplace_back(line_at(statement.begin), std::string(text.substr(0, text.find('\n'))));
      return path.front() == "raise";
    }
    PythonValue value = whole_expression(scope);
    value.size += value.text.size() / 100;
    if (!others.empty() && value.kind != PythonValue::Kind::call)
      value = {PythonValue::Kind::unread, value.text, value.line, value.size};
    for (const std::string& name : others) {
      PythonValue& other = scope[name] = value;
      if (other.fields != nullptr) other.fields = &objects_.emplace_back(*other.fields);
    }
    PythonValue* target = &scope[path.front()];
    for (std::size_t i = 1; i < path.size(); ++i) {
      target->size += value.size + path.size();
      target = &field(*target, path[i]);
    }
    *target = std::move(value);
    return false;
  }

  // Returns whether so many values more may be read.
  bool may_add(std::size_t size, int line) {
    values_ += size;
    if (values_ > kMostValues) out_.fail(line, "", fmt::format("more than {} values", kMostValues));
    return out_.enter(depth_, line);
  }

  // Adds what stands between brackets to a list, as its append() and extend() do; returns whether there is a list.
  bool lengthens(std::span<const std::string> path, Scope& scope) {
    const bool extends = path.back() == "extend";
    PythonValue* list = extends || path.back() == "append" ? find_value(scope, path.first(path.size() - 1)) : nullptr;
    PythonValue added{PythonValue::Kind::call, "", line_at(pos_)};
    if (list == nullptr || list->kind != PythonValue::Kind::list || !brackets(scope, added) || added.items.size() != 1)
      return false;
    list = find_value(scope, path.first(path.size() - 1));  // an expression in the brackets may have changed the scope
    if (extends && added.items.front().kind != PythonValue::Kind::list) return false;
    list->size += added.size;
    if (extends)
      std::ranges::move(PythonValue(added.items.front()).items, std::back_inserter(list->items));
    else
      list->items.push_back(std::move(added.items.front()));
    return may_add(added.size, added.line);
  }

  // Returns the expression at the end of a statement.
  PythonValue whole_expression(Scope& scope) {
    const std::size_t begin = pos_;
    PythonValue value = expression(scope);
    if (pos_ < end_)  // a tuple without brackets
      value = {PythonValue::Kind::unread, std::string(trimmed(text_.substr(begin, end_ - begin))), value.line};
    return value;
  }

  PythonValue expression(Scope& scope) {
    skip_space();
    const std::size_t begin = pos_;
    PythonValue value{PythonValue::Kind::scalar, "", line_at(begin)};
    ++depth_;
    const bool known = may_add(1, value.line) && conditional(scope, value);
    --depth_;
    skip_space();
    if (known && std::string_view(",)]}\0", 5).find(letter()) != std::string_view::npos) {
      if (value.kind == PythonValue::Kind::unread && value.text.empty())
        value.text = trimmed(text_.substr(begin, pos_ - begin));
      return value;
    }
    pos_ = find_outside(begin, end_, ",)]}");
    return {PythonValue::Kind::unread, std::string(trimmed(text_.substr(begin, pos_ - begin))), line_at(begin)};
  }

  // Reads A if B else C; only what is taken is run. As all that read a part of an expression, returns whether it is one
  // that is read.
  bool conditional(Scope& scope, PythonValue& value) {
    const std::size_t begin = pos_;
    const auto branch = stands_at(begin, "lambda") ? std::nullopt : find_word(begin, "if");
    if (!branch) return either(scope, value);
    pos_ = *branch + 2;
    PythonValue condition;
    if (!either(scope, condition) || !takes_word("else") || find_word(pos_, "for")) return false;
    const auto is = truth(condition);
    if (is == false) value = expression(scope);
    const std::size_t end = find_outside(pos_, end_, ",)]}");
    const bool read = is && (!*is || (pos_ = begin, either(scope, value)));
    pos_ = end;
    return read;
  }

  // Reads A or B of A and B; behind the operand that decides no function is run.
  bool either(Scope& scope, PythonValue& value, bool any = true) {
    const auto operand = [&](PythonValue& one) { return any ? either(scope, one, false) : comparison(scope, one); };
    bool read = operand(value);
    while (read && takes_word(any ? "or" : "and")) {
      const auto is = truth(value);
      PythonValue other{PythonValue::Kind::scalar, "", value.line};
      unused_ += is == any ? 1 : 0;
      read = operand(other);
      unused_ -= is == any ? 1 : 0;
      if (is != any) value = is ? std::move(other) : decided({}, value.line);
    }
    return read;
  }

  bool comparison(Scope& scope, PythonValue& value) {
    bool negates = false, denies = false;
    for (; takes_word("not"); negates = true) denies = !denies;
    if (!sum(scope, value)) return false;
    constexpr std::pair<std::string_view, bool> words[] = {{"is not", false}, {"is", true},      {"==", true},
                                                           {"!=", false},     {"not in", false}, {"in", true}};
    const auto* word = std::ranges::find_if(words, [this](const auto& one) { return takes_word(one.first); });
    if (word == std::end(words) && !negates) return true;
    auto is = truth(value);
    if (word != std::end(words)) {
      PythonValue other{PythonValue::Kind::scalar, "", value.line};
      if (!sum(scope, other)) return false;
      is = word->first.ends_with("in") ? holds(other, value) : equal(value, other);
      denies = denies == word->second;
    }
    value = decided(is ? std::optional(*is != denies) : is, value.line);
    return true;
  }

  // Reads operands of *, and of + between those.
  bool sum(Scope& scope, PythonValue& value, char sign = '+') {
    const auto operand = [&](PythonValue& one) { return sign == '+' ? sum(scope, one, '*') : primary(scope, one); };
    bool read = operand(value);
    for (skip_space(); read && letter() == sign; skip_space()) {
      ++pos_;
      skip_space();
      PythonValue other{PythonValue::Kind::scalar, "", value.line};
      read = operand(other);
      value = sign == '+' ? added(std::move(value), std::move(other)) : multiplied(std::move(value), std::move(other));
      read = read && may_add(value.size, value.line);
    }
    return read;
  }

  // Reads a literal, brackets, a name or a call; returns whether it is one.
  bool primary(Scope& scope, PythonValue& value) {
    if (letter() == '[' || letter() == '{' || letter() == '(') {
      const bool list = letter() == '[', single = letter() == '(';
      value.kind = letter() == '{' ? PythonValue::Kind::call : PythonValue::Kind::list;
      if (letter() == '{') value.text = "dict", value.fields = &objects_.emplace_back();
      const bool closed = brackets(scope, value);
      if (single && value.items.size() == 1) value = PythonValue(value.items.front());
      return closed && (!list || value.fields == nullptr);
    }
    if (const std::size_t quote = text_.find_first_not_of("rRbBuU", pos_); quote < end_ && is_quote(quote))
      return strings(value);
    if (const char first = letter(); first == '-' || first == '.' || (first >= '0' && first <= '9')) {
      const auto signs = [&] { return value.text.empty() || (value.text.back() | 32) == 'e'; };
      for (; is_name(letter()) || letter() == '.' || ((letter() == '-' || letter() == '+') && signs()); ++pos_)
        if (letter() != '_') value.text += letter();
      return parse_number<double>(value.text).has_value();
    }
    const std::vector<std::string> path = take_path();
    const std::string name = fmt::format("{}", fmt::join(path, "."));
    if (path.back().empty()) return false;
    if (letter() == '(') {
      if (!call(scope, name, value)) return false;
      if (name == "list" && value.items.size() == 1 && value.items.front().kind == PythonValue::Kind::list)
        value = PythonValue(value.items.front());
      PythonValue* const owner = find_value(scope, std::span(path).first(path.size() - 1));
      if (path.back() == "lower" && owner != nullptr && owner->kind == PythonValue::Kind::scalar) {
        value = {PythonValue::Kind::scalar, lower_case(owner->text), value.line};
        return true;
      }
      const bool stated = name == kStated;
      const bool attribute = (name == "getattr" || stated) && !value.items.empty();
      const PythonValue* from = path.back() == "get" ? owner : attribute ? &value.items.front() : nullptr;
      const std::size_t key = attribute ? 1 : 0;
      if (from == nullptr || value.items.size() <= key) return true;
      const PythonValue silent = value.items.size() > key + 1 ? value.items[key + 1] : PythonValue();
      const PythonValue read = entry(*from, value.items[key], &silent);
      value = stated && read.kind == PythonValue::Kind::unread ? silent : read;
      return true;
    }
    if (name == "True" || name == "False") value.text = name == "True" ? "true" : "false";
    if (name == "None" || !value.text.empty()) return true;
    const PythonValue* target = find_value(scope, path);
    // A format or a kernel stands for itself.
    if (target == nullptr && path.size() == 2 && (path.front() == "torch" || path.front() == "AttnBackend")) {
      value.text = name;
      return true;
    }
    if (target != nullptr && !may_add(target->size, value.line)) return false;
    value = target == nullptr ? PythonValue{PythonValue::Kind::unread, name, value.line} : PythonValue(*target);
    for (; letter() == '['; skip_space()) {
      PythonValue index{PythonValue::Kind::list, "", value.line};
      if (!brackets(scope, index)) return false;
      value = entry(value, index.items.size() == 1 ? index.items.front() : index, nullptr);
      if (!may_add(value.size, value.line)) return false;
    }
    return true;
  }

  static PythonValue* find_value(Scope& scope, std::span<const std::string> path) {
    const auto found = path.empty() ? scope.end() : scope.find(path.front());
    PythonValue* value = found == scope.end() ? nullptr : &found->second;
    for (std::size_t i = 1; i < path.size() && value != nullptr; ++i) value = find_field(*value, path[i]);
    return value;
  }

  // Strings that follow each other are one.
  bool strings(PythonValue& value) {
    while (true) {
      const std::size_t quote = text_.find_first_not_of("rRbBuU", pos_);
      if (quote >= end_ || !is_quote(quote)) return true;
      pos_ = after_string(quote);
      const std::size_t length = marks(quote).size();
      if (pos_ < quote + 2 * length) return false;
      value.text += text_.substr(quote + length, pos_ - quote - 2 * length);
      skip_space();
    }
  }

  // Reads what stands between brackets: items, keywords of a call, keys of a dictionary.
  bool brackets(Scope& scope, PythonValue& value) {
    const char closing = letter() == '(' ? ')' : letter() == '[' ? ']' : '}';
    ++pos_;
    skip_space();
    if (const auto loop = closing == ']' ? find_word(pos_, "for") : std::nullopt)
      return comprehension(scope, value, *loop);
    for (; pos_ < end_ && letter() != closing; skip_space()) {
      const std::size_t begin = pos_;
      PythonValue key;
      if (closing == '}') {
        ++unused_;
        if (primary(scope, key)) key.text = key_of(key).value_or("");
        --unused_;
        skip_space();
      } else {
        key.text = take_path().front();
      }
      const bool keyed = closing == '}' ? letter() == ':' && ++pos_ > 0 : takes_assignment();
      if (!keyed) pos_ = begin;
      PythonValue one = expression(scope);
      value.size += one.size + one.text.size() / 100;
      if (keyed && !key.text.empty())
        field(value, key.text) = std::move(one);
      else
        value.items.push_back(std::move(one));
      if (letter() != ',' && letter() != closing) return false;
      if (letter() == ',') ++pos_;
    }
    return pos_++ < end_;
  }

  // Reads the items that a loop over a list makes.
  bool comprehension(Scope& scope, PythonValue& value, std::size_t loop) {
    const auto [begin, end] = std::pair(std::exchange(pos_, loop + 3), end_);
    skip_space();
    const std::string name = take_path().front();
    PythonValue whole;
    if (!takes_word("in") || !either(scope, whole) || whole.kind != PythonValue::Kind::list || letter() != ']')
      return false;
    const std::size_t behind = pos_ + 1;
    end_ = loop;
    for (const PythonValue& item : whole.items) {
      scope[name] = item;
      pos_ = begin;
      value.items.push_back(whole_expression(scope));
      value.size += value.items.back().size + value.items.back().text.size() / 100;
    }
    pos_ = behind, end_ = end;
    return true;
  }

  // Gives a model the length of its context, which configurations read from it: that of the call, else the flavor's.
  void add_context(std::string_view package, PythonValue& model) {
    const PythonValue* length = find_field(model, "seq_len");
    PythonValue context{PythonValue::Kind::unread, "max_context_length", model.line};
    if (length != nullptr && !(length->kind == PythonValue::Kind::scalar && length->text.empty())) {
      context = *length;
    } else if (!model.items.empty()) {
      const auto longest = torchtitan_context(package, model.items.front().text);
      if (longest) context = {PythonValue::Kind::scalar, std::to_string(*longest), model.line};
    }
    field(model, "max_context_length") = std::move(context);
  }

  bool call(Scope& scope, const std::string& name, PythonValue& value) {
    value.kind = PythonValue::Kind::call;
    value.text = name;
    value.fields = &objects_.emplace_back();
    const bool closed = brackets(scope, value);
    const bool spreads = std::ranges::any_of(value.items, [](const auto& item) { return item.text.starts_with('*'); });
    const auto function = find_function(name);
    const bool named = name == kModelRegistry || name == kModelBuilder;
    if (closed && named) {
      const std::string package = package_of(module_at(pos_), name);
      field(value, "package") = {PythonValue::Kind::scalar, package, value.line};
      if (name == kModelBuilder) add_context(package, value);
    }
    if (closed && is_deferred(name)) take_target(value);
    if (closed && name == kTransforms && value.items.size() == 2) {
      const PythonValue transforms = value.items.back();
      value = PythonValue(value.items.front());
      if (value.fields != nullptr) field(value, "transforms") = transforms;
    } else if (closed && function && !spreads && !named && unused_ == 0) {
      value = run(*function, PythonValue(value));
    }
    return closed;
  }

  void flatten(const PythonValue& value, const std::string& key, int depth) {
    using enum PythonValue::Kind;
    if (!out_.enter(depth, value.line) || !may_add(1 + value.text.size() / 100, value.line)) return;
    Entry entry{"",
                key.empty() ? value.text + "()" : key,
                value.text,
                {},
                value.line,
                value.kind == list,
                value.kind == unread};
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      const PythonValue& item = value.items[i];
      const std::string element = fmt::format("{}[{}]", key, i);
      if (item.kind == list) {
        flatten(item, element, depth + 1);
        continue;
      }
      entry.unread = entry.unread || item.kind == unread;
      if (key.empty() && item.kind == unread) unread_.emplace_back(item.line, item.text);  // of the whole: **base
      entry.items.push_back(item.text);
      flatten_fields(item, element, depth);
    }
    // Of a class without fields that is one of several the name is all there is: FullActivationRematConfig().
    const bool bare = value.fields == nullptr || value.fields->empty();
    const bool section = value.kind == call && value.items.empty() && value.text.find('.') == std::string::npos &&
                         (value.text.empty() || value.text == "dict" || (value.text.ends_with("Config") && !bare));
    if (!section) out_.add(std::move(entry), false);
    flatten_fields(value, key, depth);
  }

  // An object that holds itself is listed once.
  void flatten_fields(const PythonValue& value, const std::string& key, int depth) {
    if (value.fields == nullptr || std::ranges::find(listed_, value.fields) != listed_.end()) return;
    listed_.push_back(value.fields);
    for (const auto& [name, one] : *value.fields) flatten(one, joined(key, name), depth + 1);
    listed_.pop_back();
  }

  const Source& source_;
  Collector out_;
  std::vector<std::size_t> newlines_;
  std::vector<Statement> statements_;
  std::vector<Module> modules_;  // as the source's
  std::deque<PythonFields> objects_;
  std::vector<const PythonFields*> listed_;          // from the whole to what is being listed
  std::vector<std::pair<int, std::string>> unread_;  // lines and statements
  std::size_t values_ = 0;
  int depth_ = 0, unused_ = 0;  // unused_: of what is being read the value, so that no function is run
};

}  // namespace

bool is_python(std::string_view text) {
  return text.starts_with("def ") || text.find("\ndef ") != std::string_view::npos;
}

// A function with arguments, as a factory of NeMo-Run is named, is what a function of its own returns.
Result<Configuration> read_python(const Source& source) {
  const std::size_t bracket = source.function.find('(');
  if (bracket == std::string::npos) return PythonReader(source).read();
  Source asked = source;
  const std::string text = fmt::format("{}\n\ndef {}():\n    return {}\n", source.text, kAsked, source.function);
  asked.text = text;
  asked.function = kAsked;
  auto read = PythonReader(asked).read();
  if (read)
    for (Entry& entry : read->entries)
      if (entry.key == "def") entry.value = source.function.substr(0, bracket);
  return read;
}

}  // namespace plumbline::model::configurations
