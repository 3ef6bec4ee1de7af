# remix_tuner_add_object(<target> <spec> [MINUTES <m>] [EVALUATIONS <n>] [OUTPUT <file>] [OFFLINE])
#
# Makes <target>, which other targets link: the object of the kernel that <spec> describes, tuned once for this
# processor. The run record stands beside the object, in the build folder unless OUTPUT says otherwise; it is made
# again when the spec or one of its sources changes.
#
#   MINUTES, EVALUATIONS  the budget; the spec's own when left out
#   OUTPUT                the object file, for example in a folder that is kept over builds
#   OFFLINE               never tune: take the winner that is recorded beside OUTPUT, and fail where there is none
#
# REMIX_TUNER_EXECUTABLE names the program `tuner`; it is looked for on PATH and beside the found Python.
# REMIX_TUNER_OFFLINE sets OFFLINE for all.

cmake_minimum_required(VERSION 3.20)

option(REMIX_TUNER_OFFLINE "Take recorded winners only, never tune" OFF)

if(NOT REMIX_TUNER_EXECUTABLE)
  find_program(REMIX_TUNER_EXECUTABLE tuner HINTS ENV VIRTUAL_ENV PATH_SUFFIXES bin)
endif()
if(NOT REMIX_TUNER_EXECUTABLE)
  message(FATAL_ERROR
    "the program tuner was not found; pip install remix-tuner, or set REMIX_TUNER_EXECUTABLE to its path")
endif()

function(remix_tuner_add_object target spec)
  cmake_parse_arguments(PARSE_ARGV 2 arg "OFFLINE" "MINUTES;EVALUATIONS;OUTPUT" "")
  if(arg_UNPARSED_ARGUMENTS)
    list(JOIN arg_UNPARSED_ARGUMENTS " " unknown)
    message(FATAL_ERROR
      "remix_tuner_add_object(${target}): unknown argument ${unknown}; known are MINUTES, EVALUATIONS, OUTPUT and OFFLINE")
  endif()
  get_filename_component(spec "${spec}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT EXISTS "${spec}")
    message(FATAL_ERROR "remix_tuner_add_object(${target}): there is no spec ${spec}")
  endif()
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}${CMAKE_C_OUTPUT_EXTENSION}")
  if(NOT CMAKE_C_OUTPUT_EXTENSION)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}.o")
  endif()
  if(arg_OUTPUT)
    get_filename_component(object "${arg_OUTPUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  set(words ensure "${spec}" -o "${object}" --depfile "${CMAKE_CURRENT_BINARY_DIR}/${target}.d")
  if(arg_MINUTES)
    list(APPEND words --minutes "${arg_MINUTES}")
  endif()
  if(arg_EVALUATIONS)
    list(APPEND words --evaluations "${arg_EVALUATIONS}")
  endif()
  if(arg_OFFLINE OR REMIX_TUNER_OFFLINE)
    list(APPEND words --offline)
  endif()
  add_custom_command(
    OUTPUT "${object}"
    COMMAND "${REMIX_TUNER_EXECUTABLE}" ${words}
    DEPENDS "${spec}"
    DEPFILE "${CMAKE_CURRENT_BINARY_DIR}/${target}.d"
    COMMENT "Tuned object ${target}"
    USES_TERMINAL
    VERBATIM)
  add_custom_target(${target}_object DEPENDS "${object}")
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE "${object}")
  add_dependencies(${target} ${target}_object)
endfunction()
