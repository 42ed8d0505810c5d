//! What is implemented for tuples, whatever their length.

/// Hands `implement!` the tuples of two to twelve elements, each with their names and places.
macro_rules! of_tuples {
    ($implement:ident) => {
        $implement! {
            A 0, B 1;
            A 0, B 1, C 2;
            A 0, B 1, C 2, D 3;
            A 0, B 1, C 2, D 3, E 4;
            A 0, B 1, C 2, D 3, E 4, F 5;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
        }
    };
}
