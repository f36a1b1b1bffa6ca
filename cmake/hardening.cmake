# Compiler and linker options of every target: warnings, and what makes a memory error harder to use.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(settle_options INTERFACE)
target_compile_options(settle_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<BOOL:${SETTLE_WERROR}>:-Werror>
  -fstack-protector-strong
  $<$<CXX_COMPILER_ID:GNU>:-fstack-clash-protection>)
# _FORTIFY_SOURCE needs optimisation; some toolchains predefine another value, hence the undefine.
target_compile_options(settle_options INTERFACE
  $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
  $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
target_compile_definitions(settle_options INTERFACE _GLIBCXX_ASSERTIONS)
target_link_options(settle_options INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
