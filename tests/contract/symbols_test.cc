// Every name that a header of plumbline declares is used by plumbline. A function, type, constant or field whose name
// occurs only where it is declared and defined is used by tests alone, or not at all. The test compares names without a
// compiler, not their meanings, so a name that something else also has passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/support/source_tree.h"

namespace plumbline::tests {
namespace {

// The folders of plumbline itself. examples/ counts as a user of the installed libraries.
const std::set<std::string> kFolders = {"model", "topologies", "sim", "calibrate", "reports", "real", "cli", "python"};
const std::set<std::string> kUsers = {"model", "topologies", "sim",    "calibrate",  "reports",
                                      "real",  "cli",        "python", "playground", "examples"};

// Names that no source outside tests uses, with the reason to keep them.
const std::map<std::string, std::string> kPromised = {
    {"activation_bound", "what a schedule promises of its memory, by rank; the contract of schedules holds it to that"},
    {"gradients_of", "what an executed step leaves, for programs that train with a loop of their own"},
    {"parameters_of", "what an executed step leaves, for programs that train with a loop of their own"},
};

bool begins_name(char letter) { return std::isalpha(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }
bool in_name(char letter) { return begins_name(letter) || std::isdigit(static_cast<unsigned char>(letter)) != 0; }
bool is_name(const std::string& token) {
  static const std::set<std::string> keywords = {
      "alignas",   "assert",   "auto",     "bool",    "char",     "class",    "concept",       "const",
      "constexpr", "decltype", "default",  "delete",  "double",   "enum",     "explicit",      "extern",
      "final",     "float",    "friend",   "if",      "inline",   "int",      "long",          "mutable",
      "namespace", "noexcept", "operator", "private", "public",   "override", "protected",     "requires",
      "short",     "signed",   "sizeof",   "static",  "struct",   "template", "static_assert", "this",
      "typedef",   "typename", "union",    "using",   "unsigned", "virtual",  "void"};
  return begins_name(token[0]) && !keywords.contains(token);
}

// Returns the text with blanks for comments, literals and preprocessor lines, apart from definitions of macros.
std::string code_of(const SourceFile& file) {
  std::string text;
  for (const std::string& line : file.lines) {
    const std::size_t first = line.find_first_not_of(" \t");
    const bool directive = first != std::string::npos && line[first] == '#' && line.find("define") == std::string::npos;
    text += (directive ? "" : line) + "\n";
  }
  const auto blank = [&](std::size_t from, std::size_t to) {
    std::fill(text.begin() + static_cast<std::ptrdiff_t>(from), text.begin() + static_cast<std::ptrdiff_t>(to), ' ');
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t end = i;
    if (text.compare(i, 2, "//") == 0) {
      end = text.find('\n', i);
    } else if (text.compare(i, 2, "/*") == 0) {
      end = text.find("*/", i) + 2;
    } else if (text.compare(i, 2, "R\"") == 0 && (i == 0 || !in_name(text[i - 1]))) {
      const std::size_t open = text.find('(', i);
      end = text.find(")" + text.substr(i + 2, open - i - 2) + "\"", open) + open - i;
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !in_name(text[i - 1])))) {
      for (end = i + 1; end < text.size() && text[end] != text[i]; ++end) end += text[end] == '\\' ? 1 : 0;
      ++end;
    }
    end = std::min(end, text.size());
    if (end == i) continue;
    blank(i, end);
    i = end - 1;
  }
  return text;
}

// Returns names, "::" and single characters.
std::vector<std::string> tokens_of(const std::string& code) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < code.size();) {
    std::size_t end = i + 1;
    if (in_name(code[i])) {
      while (end < code.size() && in_name(code[end])) ++end;
    } else if (code.compare(i, 2, "::") == 0) {
      ++end;
    }
    if (std::isspace(static_cast<unsigned char>(code[i])) == 0) tokens.push_back(code.substr(i, end - i));
    i = end;
  }
  return tokens;
}

// Counts how often a file declares or defines each name outside of functions. Enumerators are left out, because loops
// use them without naming them.
class Declarations {
 public:
  explicit Declarations(const std::vector<std::string>& tokens) {
    for (const std::string& token : tokens) take(token);
  }
  std::vector<std::string> names;

 private:
  enum class Scope { declarations, code };
  using Statement = std::vector<std::string>;

  void take(const std::string& token) {
    const bool open = token == "{", close = token == "}";
    if (!scopes_.empty() && scopes_.back() == Scope::code) {
      if (open) scopes_.push_back(Scope::code);
      if (close) scopes_.pop_back();
      return;
    }
    if (token == "(" || token == "[") ++parentheses_;
    if (token == ")" || token == "]") --parentheses_;
    if (parentheses_ > 0 || (!open && !close && token != ";" && !label(token))) {
      statement_.push_back(token);
    } else if (open) {
      scopes_.push_back(enter());
    } else if (close) {
      if (!scopes_.empty()) scopes_.pop_back();
      statement_.clear();
    } else {
      if (token == ";") declare();
      statement_.clear();
    }
  }

  bool label(const std::string& token) const {
    return token == ":" && !statement_.empty() &&
           (statement_.back() == "public" || statement_.back() == "private" || statement_.back() == "protected");
  }
  bool has(const std::string& word) const { return std::ranges::find(statement_, word) != statement_.end(); }

  // Returns the scope that a brace opens after the statement so far and declares its name. A function's body ends the
  // statement.
  Scope enter() {
    const bool type = has("struct") || has("class") || has("union");
    Scope scope = Scope::code;
    if (has("enum") || (type && !has("("))) {
      const auto word = std::ranges::find_if(statement_, [](const std::string& token) {
        return token == "enum" || token == "struct" || token == "class" || token == "union";
      });
      const auto name = std::find_if(word, statement_.end(), is_name);
      if (name != statement_.end()) names.push_back(*name);
      if (!has("enum")) scope = Scope::declarations;
    } else if (has("namespace")) {
      scope = Scope::declarations;
    } else {
      declare();
    }
    statement_.clear();
    return scope;
  }

  // Declares a function, whose name stands before its parameters, or variables, whose names stand before a comma, "="
  // or the end.
  void declare() {
    Statement words = without_template(statement_);
    if (words.size() < 2 || words[0] == "friend" || words[0] == "static_assert") return;
    if (words[0] == "using") {
      if (words[2 % words.size()] == "=") names.push_back(words[1]);
      return;
    }
    for (std::size_t i = 0; i + 1 < words.size() && words[i] != "="; ++i) {
      if (words[i] == "operator") return;
      if (!is_name(words[i]) || words[i + 1] != "(") continue;
      const bool constructor = i == 0 || words[i - 1] == "~" || words[i - 1] == "explicit" ||
                               words[i - 1] == "constexpr" ||
                               (i > 1 && words[i - 1] == "::" && words[i - 2] == words[i]);
      if (!constructor && !words[i].starts_with("__")) names.push_back(words[i]);
      return;
    }
    declare_variables(words);
  }

  void declare_variables(const Statement& words) {
    int depth = 0;
    bool value = false;
    std::string last;
    const auto declared = [&] {
      if (!last.empty()) names.push_back(last);
      last.clear();
    };
    for (const std::string& word : words) {
      if (word == "<" || word == "(" || word == "[") ++depth;
      if (word == ">" || word == ")" || word == "]") --depth;
      if (depth > 0) continue;
      if (word == "=" || word == ",") {
        declared();
        value = word == "=";
      } else if (!value && is_name(word)) {
        last = word;
      }
    }
    declared();
  }

  static Statement without_template(Statement words) {
    if (words.empty() || words[0] != "template") return words;
    int depth = 0;
    for (std::size_t i = 1; i < words.size(); ++i) {
      depth += words[i] == "<" ? 1 : words[i] == ">" ? -1 : 0;
      if (depth == 0) return {words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()};
    }
    return {};
  }

  std::vector<Scope> scopes_;
  Statement statement_;
  int parentheses_ = 0;
};

// Returns the names that plumbline's headers declare and that occur nowhere but in declarations, with the header.
std::map<std::string, std::string> unused_names(const std::vector<SourceFile>& files) {
  std::map<std::string, std::string> headers;
  std::map<std::string, int> uses;
  for (const SourceFile& file : files) {
    if (!kUsers.contains(file.folder())) continue;
    const std::vector<std::string> tokens = tokens_of(code_of(file));
    for (const std::string& token : tokens) ++uses[token];
    for (const std::string& name : Declarations(tokens).names) {
      --uses[name];
      const bool header = file.extension() == ".h" || file.extension() == ".cuh";
      if (header && kFolders.contains(file.folder())) headers.emplace(name, file.path);
    }
  }
  std::erase_if(headers, [&](const auto& declared) { return uses[declared.first] > 0; });
  return headers;
}

TEST(Symbols, PlumblineUsesWhatItsHeadersDeclare) {
  auto unused = unused_names(read_source_tree(source_folder(), {".h", ".cc", ".cu", ".cuh", ".def"}));
  for (const auto& [name, reason] : kPromised)
    EXPECT_EQ(unused.erase(name), 1U) << name << " is used now, or gone: take it from the table";
  EXPECT_THAT(unused, testing::IsEmpty()) << "use these, delete them with their tests, or move them to tests/support";
}

TEST(Symbols, ChecksFindWhatTheyLookFor) {
  const SourceFile header{
      "model/a.h",
      {"// used() in a comment is none", "namespace a {", "enum class Colour { red };", "struct Point {",
       "  double x = 0, y = 0;", "  double length() const { return x; }", "  Point& operator+(int);", "};",
       "template <class T>", "T twice(T value);", "inline constexpr int most = 3;", "using Line = int;", "void used();",
       "int values[most];", "}"}};
  const SourceFile source{"model/a.cc",
                          {"void a::used() { Point p{\"y\"}; }", "int a::b(Colour) { used(); return 'y'; }"}};
  std::vector<std::string> names;
  for (const auto& [name, path] : unused_names({header, source})) names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("Line", "length", "twice", "values", "y"));
}

}  // namespace
}  // namespace plumbline::tests
