// TypeScript within components is understood without a preprocessor.
export default {};
