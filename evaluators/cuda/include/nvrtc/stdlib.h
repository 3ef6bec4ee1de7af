/* NVRTC knows malloc and free itself. */
#pragma once
