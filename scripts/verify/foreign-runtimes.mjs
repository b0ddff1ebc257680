export const foreignRuntimes = () => [];
