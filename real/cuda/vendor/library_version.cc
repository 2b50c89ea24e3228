#include <dlfcn.h>
#include <limits.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {
namespace {

using Version = std::array<int, 3>;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? "" : resolved;
}

// Reads the three numbers at the end of libx.so.9.19.0; a name with fewer gives no version.
Version version_of_name(const std::string& path) {
  Version version{};
  const std::size_t so = path.rfind(".so.");
  if (so == std::string::npos) return {};
  const char* numbers = path.c_str() + so;
  return std::sscanf(numbers, ".so.%d.%d.%d", &version[0], &version[1], &version[2]) == 3 ? version : Version{};
}

Version version_of_header(const std::string& file, const std::string& prefix) {
  Version version{};
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string define, name;
    int value = 0;
    if (!(words >> define >> name >> value) || define != "#define") continue;
    if (name == prefix + "_MAJOR") version[0] = value;
    if (name == prefix + "_MINOR") version[1] = value;
    if (name == prefix + "_PATCHLEVEL") version[2] = value;
  }
  return version;
}

// Returns the file in a folder, or in the loader's own path; "" if there is none. The loader gives its path only after
// it has loaded the file, which loads nothing else as long as no function is called.
std::string file_in(const std::string& folder, const std::string& soname) {
  if (!folder.empty()) return real_path(folder + '/' + soname);
  void* handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return "";
  link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr;
  const std::string path = known ? real_path(map->l_name) : "";
  dlclose(handle);
  return path;
}

}  // namespace

Version adjacent_version(const std::string& path, const VersionHeader& header) {
  const Version named = version_of_name(real_path(path));
  return named != Version{} ? named : version_of_header(folder_of(path) + "/../include/" + header.file, header.prefix);
}

std::shared_ptr<Library> open_newest(const LibraryName& name, const VersionHeader& header,
                                     const std::vector<std::string>& folders, std::string& error) {
  Version newest{};
  std::vector<std::string> order = folders;  // without versions, the given order
  for (const std::string& folder : folders) {
    for (const std::string& soname : name.sonames) {
      const std::string path = file_in(folder, soname);
      if (path.empty()) continue;
      if (const Version version = adjacent_version(path, header); version > newest) {
        newest = version;
        order.insert(order.begin(), folder.empty() ? folder_of(path) : folder);
      }
    }
  }
  return Library::open(name, order, error);
}

}  // namespace plumbline::real::cuda
